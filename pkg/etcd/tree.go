package etcd

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The layout of a page of bbolt: a header of id (8 bytes), flags (2), count (2)
// and overflow (4), then, in a branch, entries of 16 bytes that end in a page id.
// All numbers are as the machine has them.
const (
	pageHeader  = 16
	branchEntry = 16
	branchFlag  = 0x01
	leafFlag    = 0x02
)

// checkTree makes sure that the pages below a root are a tree within the file.
// Bbolt follows a damaged page that leads back to itself for ever. Of leaves it
// reads the header only.
func checkTree(file io.ReaderAt, pageSize int64, root, pages uint64, interrupted func() error) error {
	seen := make([]uint64, pages/64+1) // A bit for each page: 32 KB for each GB of the file.
	for open := []uint64{root}; len(open) > 0; {
		if err := interrupted(); err != nil {
			return err
		}
		id := open[len(open)-1]
		open = open[:len(open)-1]
		if id < 2 || id >= pages {
			return fmt.Errorf("page %d does not exist", id)
		}
		if seen[id/64]&(1<<(id%64)) != 0 {
			return fmt.Errorf("page %d is reached twice", id)
		}
		seen[id/64] |= 1 << (id % 64)
		children, err := children(file, pageSize, id, pages)
		if err != nil {
			return err
		}
		open = append(open, children...)
	}
	return nil
}

// children returns the pages that a page leads to.
func children(file io.ReaderAt, pageSize int64, id, pages uint64) ([]uint64, error) {
	var header [pageHeader]byte
	at := int64(id) * pageSize // id is less than the number of pages of a file.
	if _, err := file.ReadAt(header[:], at); err != nil {
		return nil, fmt.Errorf("reading page %d: %w", id, err)
	}
	flags, count := binary.NativeEndian.Uint16(header[8:]), int64(binary.NativeEndian.Uint16(header[10:]))
	overflow := uint64(binary.NativeEndian.Uint32(header[12:]))
	switch own := binary.NativeEndian.Uint64(header[:]); {
	case own != id:
		return nil, fmt.Errorf("page %d says that it is page %d", id, own)
	case id+overflow >= pages:
		return nil, fmt.Errorf("page %d is longer than the file", id)
	case flags == leafFlag:
		return nil, nil
	case flags != branchFlag || count == 0 || count*branchEntry > (1+int64(overflow))*pageSize-pageHeader: // As above.
		return nil, fmt.Errorf("page %d is neither a branch nor a leaf", id)
	}
	entries := make([]byte, count*branchEntry)
	if _, err := file.ReadAt(entries, at+pageHeader); err != nil {
		return nil, fmt.Errorf("reading page %d: %w", id, err)
	}
	ids := make([]uint64, 0, count)
	for ; len(entries) > 0; entries = entries[branchEntry:] {
		ids = append(ids, binary.NativeEndian.Uint64(entries[8:]))
	}
	return ids, nil
}
