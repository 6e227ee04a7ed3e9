package etcd

// SetMaxKeys makes a snapshot remember less keys at a time.
func (s *Snapshot) SetMaxKeys(n int) { s.maxKeys = n }

// WithMaxPageBytes makes a client take smaller pages only.
func (o LiveOptions) WithMaxPageBytes(n int) LiveOptions {
	o.maxPageBytes = n
	return o
}
