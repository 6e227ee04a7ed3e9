package cmd

import (
	"sync"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/manifest"
)

// places finds fields in the text of manifests. It remembers the document that
// it parsed last: the CRDs of a list are in one.
type places struct {
	lock   sync.Mutex
	text   *byte
	parsed *manifest.Document
}

// find returns where a field of a CRD is in its manifest, or the nearest place
// around it.
func (p *places) find(origin crd.Origin, path string) *v1alpha1.Location {
	location := &v1alpha1.Location{File: origin.File, Line: origin.Line}
	document := origin.Document
	if document == nil || len(document.Text) == 0 {
		return location
	}
	parsed := p.parse(document.Text)
	if parsed == nil {
		return location
	}
	place, _ := parsed.Find(document.Path(path))
	if place.Line > 0 {
		location.Line, location.Column, location.Text = document.Start+place.Line-1, place.Column, place.Text
	}
	return location
}

func (p *places) parse(text []byte) *manifest.Document {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.text != &text[0] {
		parsed, err := manifest.Parse(text)
		if err != nil {
			parsed = nil // It was decoded, so this is a text whose places cannot be told.
		}
		p.text, p.parsed = &text[0], parsed
	}
	return p.parsed
}
