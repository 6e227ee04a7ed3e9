package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"time"
)

// entry is one file in an archive.
type entry struct {
	name    string
	mode    os.FileMode
	content []byte
}

// modified is the time of every file in every archive, so that an archive
// depends on its contents only.
func modified() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// packTarGz writes entries as a gzip-compressed tar archive.
func packTarGz(w io.Writer, entries []entry) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     e.name,
			Mode:     int64(e.mode),
			Size:     int64(len(e.content)),
			ModTime:  modified(),
			Format:   tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("tar: %w", err)
		}
		if _, err := archive.Write(e.content); err != nil {
			return fmt.Errorf("tar: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("tar: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	return nil
}

// packZip writes entries as a zip archive.
func packZip(w io.Writer, entries []entry) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: modified()}
		header.SetMode(e.mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("zip: %w", err)
		}
		if _, err := file.Write(e.content); err != nil {
			return fmt.Errorf("zip: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("zip: %w", err)
	}
	return nil
}
