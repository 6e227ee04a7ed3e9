package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// lockPatience is how long to wait for the lock of the file. A running etcd
	// never gives it away.
	lockPatience = time.Second
	// maxKeys bounds the keys that are remembered at a time, 40 bytes each: 80 MB.
	maxKeys = 2 << 20
	// sectorSize: the size of a database is a multiple of it. "etcdctl snapshot
	// save" appends a SHA-256 of 32 bytes, and so do we tell that there is one.
	sectorSize = 512
	// checkEvery is how many records go by between two looks at the context.
	checkEvery = 1024
)

// The states of the checksum of a snapshot.
const (
	ChecksumVerified = "verified"
	ChecksumNone     = "none"
	ChecksumSkipped  = "skipped"
)

// SnapshotOptions say how to read a snapshot.
type SnapshotOptions struct {
	// Prefix of the keys; empty is DefaultPrefix.
	Prefix string
	// SkipChecksum reads a snapshot whose checksum is wrong.
	SkipChecksum bool
}

// Snapshot is a file that "etcdctl snapshot save" wrote, or a database that was
// copied from the data directory of an etcd that does not run. Neither is
// written to.
type Snapshot struct {
	file     string
	prefix   string
	db       *bolt.DB
	checksum string
	revision int64
	// maxKeys is the constant, but for tests.
	maxKeys int
}

var _ Source = (*Snapshot)(nil)

// OpenSnapshot opens a snapshot and makes sure that it is whole.
func OpenSnapshot(ctx context.Context, file string, options SnapshotOptions) (*Snapshot, error) {
	s := &Snapshot{file: file, prefix: cleanPrefix(options.Prefix), checksum: ChecksumNone, maxKeys: maxKeys}
	if err := s.open(ctx, options); err != nil {
		_ = s.Close() // The error says more.
		return nil, fmt.Errorf("etcd snapshot %s: %w", file, err)
	}
	return s, nil
}

func (s *Snapshot) open(ctx context.Context, options SnapshotOptions) error {
	size, err := fileSize(s.file)
	if err != nil {
		return err
	}
	switch size % sectorSize {
	case 0:
	case sha256.Size:
		size -= sha256.Size
		s.checksum = ChecksumSkipped
		if options.SkipChecksum {
			break
		}
		if err := verifyChecksum(ctx, s.file, size); err != nil {
			return err
		}
		s.checksum = ChecksumVerified
	default:
		return fmt.Errorf("it is truncated, or no snapshot: a size of %d bytes is none that etcd writes", size)
	}
	return guard(func() error {
		if s.db, err = bolt.Open(s.file, 0, &bolt.Options{ReadOnly: true, Timeout: lockPatience}); err != nil {
			return openError(err)
		}
		return s.check(ctx, size)
	})
}

// fileSize returns the size of a file that can be read as one.
func fileSize(file string) (int64, error) {
	info, err := os.Stat(file)
	var pathError *os.PathError
	switch {
	case errors.As(err, &pathError):
		return 0, pathError.Err
	case err != nil:
		return 0, err //nolint:wrapcheck // Stat returns no other.
	case info.IsDir():
		return 0, errors.New("it is a directory: name the file that etcdctl snapshot save wrote, or member/snap/db of a data directory whose etcd does not run")
	case !info.Mode().IsRegular():
		return 0, errors.New("it is not a regular file")
	case info.Size() == 0:
		return 0, errors.New("it is empty")
	}
	return info.Size(), nil
}

// verifyChecksum compares the SHA-256 at the end with that of what is before it.
func verifyChecksum(ctx context.Context, name string, size int64) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	defer file.Close() //nolint:errcheck // Only read.
	hash := sha256.New()
	const block = 8 << 20
	for left := size; left > 0; left -= block {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verifying its checksum: %w", err)
		}
		if _, err := io.CopyN(hash, file, min(block, left)); err != nil {
			return fmt.Errorf("verifying its checksum: %w", err)
		}
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(file, want); err != nil {
		return fmt.Errorf("reading its checksum: %w", err)
	}
	if !bytes.Equal(hash.Sum(nil), want) {
		return errors.New("it is damaged, or not a snapshot: its checksum is wrong; save another one, " +
			"or look at what is left of it with --etcd-skip-checksum")
	}
	return nil
}

func openError(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return errors.New("it is the database of an etcd that runs: read one that etcdctl snapshot save wrote, or the etcd itself with --etcd-endpoints")
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("it is damaged, or not an etcd snapshot: %w", err)
	}
	return fmt.Errorf("opening it: %w", err)
}

// check makes sure that the database is as long as it says and, where no
// checksum did so, that its pages can be walked.
func (s *Snapshot) check(ctx context.Context, size int64) error {
	return s.view(func(tx *bolt.Tx, keys *bolt.Bucket) error {
		if tx.Size() > size {
			return fmt.Errorf("it is truncated: %d bytes of %d are there", size, tx.Size())
		}
		root := uint64(keys.Root())
		if s.checksum == ChecksumVerified || root == 0 { // A small bucket is within the page of another one.
			return nil
		}
		file, err := os.Open(s.file)
		if err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		defer file.Close() //nolint:errcheck // Only read.
		pageSize := int64(s.db.Info().PageSize)
		if err := checkTree(file, pageSize, root, uint64(tx.Size()/pageSize), ctx.Err); err != nil { // A size is not negative.
			if ctx.Err() != nil {
				return fmt.Errorf("checking its pages: %w", err)
			}
			return fmt.Errorf("it is damaged: %w", err)
		}
		return nil
	})
}

// view gives access to the bucket that holds the revisions of all keys.
func (s *Snapshot) view(work func(*bolt.Tx, *bolt.Bucket) error) error {
	//nolint:wrapcheck // It is the error of the work.
	return s.db.View(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		if keys == nil {
			return errors.New("it is not an etcd snapshot, but another bbolt database: it has no bucket named key")
		}
		return work(tx, keys)
	})
}

// guard turns a panic into an error. Bbolt panics at pages that cannot be, and the
// file is mapped into memory: beyond its end there is a fault.
func guard(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("it is damaged: %v", reason)
		}
	}()
	return work()
}

// Describe implements [Source].
func (s *Snapshot) Describe() v1alpha1.EtcdSource {
	return v1alpha1.EtcdSource{Snapshot: s.file, Checksum: s.checksum, Prefix: s.prefix, Revision: s.revision}
}

// Close implements [Source].
func (s *Snapshot) Close() error {
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return guard(db.Close)
}

// Scan implements [Source].
//
// The bucket holds every revision of every key that no compaction took away, in
// the order of the revisions: MAIN_SUB, with a t where the key was deleted. Read
// from the end, the first record of a key is what the key is now. That takes to
// remember the keys that were met, those of the resources only, as 128 bits of
// their SHA-256: nobody finds two names of one hash, and for a billion objects the
// odds are 1 in 10^20. Memory does not depend on the number of objects: where
// there are more than maxKeys, the keys are divided by their hash and the file
// read once for each part.
//
// A compaction that was at work does no harm. It takes records away from the
// lowest revision on, never the last one of a key but for a deletion, and that
// after the records that it covers.
func (s *Snapshot) Scan(ctx context.Context, resources []schema.GroupResource, visitor Visitor) error {
	wanted := make(map[string]schema.GroupResource, len(resources))
	for _, resource := range resources {
		wanted[resourcePrefix(s.prefix, resource)] = resource
	}
	err := guard(func() error {
		return s.view(func(_ *bolt.Tx, keys *bolt.Bucket) error {
			last, _ := keys.Cursor().Last()
			if len(last) >= 8 {
				s.revision = int64(binary.BigEndian.Uint64(last)) // Etcd's own type is int64.
			}
			parts := 1
			for {
				for _, resource := range resources {
					visitor.Begin(resource, s.revision)
				}
				enough, err := s.scanParts(ctx, keys, parts, wanted, visitor)
				if enough || err != nil {
					return err
				}
				parts *= 2
			}
		})
	})
	if err != nil {
		return fmt.Errorf("etcd snapshot %s: %w", s.file, err)
	}
	return nil
}

// scanParts reads the file once for each part of the keys, and gives up where a
// part has too many.
func (s *Snapshot) scanParts(ctx context.Context, keys *bolt.Bucket, parts int, wanted map[string]schema.GroupResource, visitor Visitor) (enough bool, err error) {
	for part := range parts {
		scan := scan{
			prefix: []byte(s.prefix + "/"), wanted: wanted, visitor: visitor, maxKeys: s.maxKeys,
			part: uint64(part), parts: uint64(parts), met: map[keyHash]struct{}{}, // Small.
		}
		if enough, err := scan.backwards(ctx, keys.Cursor()); !enough || err != nil {
			return enough, err
		}
	}
	return true, nil
}

// keyHash is the first half of the SHA-256 of a key.
type keyHash [sha256.Size / 2]byte

// scan is one walk through the records, for one part of the keys.
type scan struct {
	prefix      []byte
	wanted      map[string]schema.GroupResource
	visitor     Visitor
	part, parts uint64
	maxKeys     int
	met         map[keyHash]struct{}
}

// backwards visits what is left of each key. It is not enough where the part has
// more keys than may be remembered.
func (s *scan) backwards(ctx context.Context, cursor *bolt.Cursor) (enough bool, err error) {
	var newer []byte
	n := 0
	for revision, record := cursor.Last(); revision != nil; revision, record = cursor.Prev() {
		if n++; n%checkEvery == 0 && ctx.Err() != nil {
			return false, fmt.Errorf("reading it: %w", ctx.Err())
		}
		const length = 17 // MAIN_SUB: two numbers of 8 bytes.
		deleted := len(revision) == length+1 && revision[length] == 't'
		if len(revision) != length && !deleted || newer != nil && bytes.Compare(revision, newer) >= 0 {
			return false, errors.New("it is damaged: its revisions are not in order")
		}
		newer = append(newer[:0], revision...)
		if !s.take(record, deleted) {
			return false, errors.New("it is damaged: a record is not one of etcd")
		}
		if len(s.met) > s.maxKeys {
			return false, nil
		}
	}
	return true, nil
}

// take looks at one record.
func (s *scan) take(record []byte, deleted bool) bool {
	kv, err := parseKeyValue(record)
	if err != nil {
		return false
	}
	resource, path, ours := s.resource(kv.key)
	if !ours {
		return true
	}
	sum := sha256.Sum256(kv.key)
	hash := keyHash(sum[:])
	if binary.BigEndian.Uint64(hash[:])%s.parts != s.part {
		return true
	}
	if _, old := s.met[hash]; old {
		return true
	}
	s.met[hash] = struct{}{}
	if !deleted {
		s.visitor.Visit(Object{Resource: resource, Path: path, Value: kv.value})
	}
	return true
}

// resource returns the resource that a key is of, and the rest of the key.
func (s *scan) resource(key []byte) (resource schema.GroupResource, path []byte, ours bool) {
	if !bytes.HasPrefix(key, s.prefix) {
		return resource, nil, false
	}
	end := len(s.prefix)
	for range 2 {
		slash := bytes.IndexByte(key[end:], '/')
		if slash < 0 {
			return resource, nil, false
		}
		end += slash + 1
		if resource, ours = s.wanted[string(key[:end])]; ours {
			return resource, key[end:], true
		}
	}
	return resource, nil, false
}
