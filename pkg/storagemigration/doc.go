// Package storagemigration rewrites the objects of a resource so that each is
// persisted at the storage version, and proves it.
//
// [Barrier] waits, after the storage version was changed, until the API servers
// persist at it; [Pass] sends one no-op patch for each object; [Verify] repeats
// passes until one finds nothing to rewrite.
//
// # What a patch proves
//
// A no-op patch makes the server decode the object, encode it at its storage
// version and compare the bytes with those in etcd, which it reads afresh for
// that (k8s.io/apiserver/pkg/storage/etcd3, GuaranteedUpdate). If they are
// equal, it writes nothing and answers with the resourceVersion as it was;
// otherwise it writes, and the resourceVersion is new (fact 4). The patch carries
// the resourceVersion of the list, so that it applies to that state of the object
// or is refused. What is proven is what this server holds to be the storage
// version, no more: a server that does not know of the flip yet finds objects
// current at the old version. That is what the barrier is for.
//
// # What a pass proves
//
// Claim: if every server persists at version V from instant B on, and a pass
// that starts after B lists all pages of all namespaces and ends with nothing
// rewritten and nothing failed, then no object is persisted at another version
// when it ends, nor afterwards while V stays the storage version.
//
// The list is a consistent read: its first page shows all objects that exist at
// an instant L after B. Take any object that exists when the pass ends.
//
//   - It was created after L: a server persisted it at V. That the list misses it
//     does no harm. The same holds for what is missing after a 410 Gone, when the
//     list goes on with the inconsistent token (fact 9): the pages that follow
//     show a later state of all keys behind the token, and keys do not move, so
//     that no object that exists at L and goes on to exist can be missed.
//   - It was listed and its patch found it current: it was at V at that instant,
//     and whoever wrote it later persisted it at V.
//   - It was listed and its patch was refused with 409: its resourceVersion is not
//     the one of the list, so somebody wrote it after L, and persisted it at V.
//     That somebody may be this pass, whose patch was stored and whose answer was
//     lost with the connection; the repeated patch is refused. It is at V as well.
//   - It was listed, its patch was answered 404, and it exists again: it was
//     created after L.
//
// A patch that is answered 404 or 409 counts so only if the answer is the
// server's own word about that object: an admission webhook may refuse with any
// code, and a version that is no longer served answers 404 for every path
// (cluster.AboutObject). A version without a subresource answers 404 for it in the
// words for an object that is gone, so that one is read before it counts so.
// Everything else is a failure, and a failure is no proof.
//
// What is rewritten is at V, too, by the same premise; that a clean pass is asked
// for nevertheless is what finds out that the premise does not hold. The price is
// that objects which a webhook changes with every write are never found clean.
//
// # What the proof needs
//
// Every server persists at V from B on. Servers learn of a flip from a watch,
// each on its own (fact 3), and nothing tells how many there are. Barrier asks
// for the storage version hash over many new connections, waits for a while,
// and watches a few objects for servers that undo each other's work. If it was
// fooled nevertheless by a server that it never met, then that server rewrites
// the objects whose patches it gets back to the old version, and the next pass
// that leads such an object to another server counts it as rewritten: Verify goes
// on and ends without a clean pass. Only if every pass leads each object to the
// same server as before is this hidden, as one connection would do: so each pass
// opens connections of its own, several where it has much in flight, and any of
// them may carry any object. What users write through such a server is hidden in
// any case. No client can see that.
//
// A write that a server took on before it switched may end later, at the old
// version: a slow admission webhook can hold it for up to 34 seconds, past the
// barrier and past a pass. VerifyOptions.NotBefore is for this: a pass that
// starts [WriteTimeout] after the flip has no such write after it. Whoever is
// about to do what cannot be undone, such as removing the version, must use it.
//
// Nobody may change the storage version meanwhile: the caller compares the CRD's
// UID, generation and storage version before and after.
//
// # What a pass may leave out
//
// A pass that migrates may leave out the objects up to a watermark that an earlier
// one has told (PassOptions.SkipThrough), if the earlier one began after the same
// barrier: the CRD has the UID, generation, storage version and stored versions
// that it had then. Each object up to the mark that the earlier pass listed was
// rewritten, found current, or written or deleted by somebody else, all of it
// after B; so it was at V by then, and so is what was written since, by whomever.
// Objects that the earlier pass did not list were created after B. The mark is the
// last object before the first that failed, or has no outcome, in the order of the
// list; should a server list in another order, it stays where the order breaks.
// The resourceVersion of single objects is not kept, and needs not be: a new one
// is a new write, and all writes after B are at V.
//
// None of this is needed for the proof. [Verify] leaves nothing out and believes
// nobody, so that a mark that is wrong, because the barrier was fooled or somebody
// made it up, costs another pass, and never the truth.
//
// A no-op patch of the status subresource (PassOptions.Subresource) proves and
// does the same: the server takes only the status from the request, but decodes
// the whole object, and encodes and compares the whole object.
//
// # Through another version
//
// The same holds for a no-op patch through another served version
// (PassOptions.Detour), for objects that the schema of the first one refuses: the
// version of the request decides how the object is decoded and validated, not at
// which version it is encoded. But a version drops what its schema lacks, so that
// each object is tried beforehand, every time; and what was tried is what is
// patched, or the resourceVersion is another one and the patch is refused.
//
// A list at another served version (PassOptions.ListThrough) names the same keys
// at the same resourceVersions: only what is decoded differs. The token to go on
// with names a key and a revision, not a version.
//
// # How fast
//
// As many requests are in flight as make the pass faster (window), fewer when the
// server answers 429, 503 or nothing, when conversions fail, or when answers take
// longer and nothing is gained by it. Retry-After holds all of them back, because
// priority and fairness speaks of all requests of a user.
package storagemigration
