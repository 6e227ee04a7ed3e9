package plan

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// maxShards bounds the number of parts: each lists all objects.
const maxShards = 1000

// Shard is one of N parts of the objects of a resource.
type Shard struct{ Index, Of int }

// ParseShard reads "I/N".
func ParseShard(text string) (Shard, error) {
	i, n, found := strings.Cut(text, "/")
	index, err := strconv.Atoi(i)
	of, errOf := strconv.Atoi(n)
	switch {
	case !found || err != nil || errOf != nil:
		return Shard{}, inputErrorf("%q is no part of the objects: use I/N, such as 0/3", text)
	case of < 1 || of > maxShards:
		return Shard{}, inputErrorf("%q: the number of parts must be from 1 to %d", text, maxShards)
	case index < 0 || index >= of:
		return Shard{}, inputErrorf("%q: the parts are numbered from 0 to %d", text, of-1)
	}
	return Shard{Index: index, Of: of}, nil
}

// String returns "I/N".
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// Holds tells whether an object is in the part: a namespace is never divided,
// and objects without one are divided by their names.
func (s Shard) Holds(namespace, name string) bool {
	key := namespace
	if key == "" {
		key = name
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))                   // It never fails.
	return int(hash.Sum32()%uint32(s.Of)) == s.Index //nolint:gosec // Of is from 1 to maxShards.
}
