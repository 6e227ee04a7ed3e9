package testbed

// Fault is one way in which a [Converter] is wrong.
type Fault string

// The faults that are about the objects.
const (
	FaultDropsField      Fault = "drops a field"
	FaultForgetsStatus   Fault = "forgets status"
	FaultLosesPrecision  Fault = "loses the precision of a large integer"
	FaultStateful        Fault = "every second call differs"
	FaultChangesKind     Fault = "changes the kind"
	FaultChangesName     Fault = "changes the name"
	FaultChangesSpace    Fault = "changes the namespace"
	FaultChangesUID      Fault = "changes the UID of objects"
	FaultFinalizers      Fault = "changes finalizers"
	FaultOmitsLabels     Fault = "omits labels and annotations"
	FaultOmitsMetadata   Fault = "omits metadata"
	FaultHugeAnnotation  Fault = "keeps the whole spec in an annotation"
	FaultAddsField       Fault = "adds a field to objects that lack it"
	FaultUnknownToSchema Fault = "leaves a field that the other version does not have"
	FaultWrongVersion    Fault = "another version than was asked for"
	FaultMixed           Fault = "takes the version of the first object for that of all"
	FaultStrict          Fault = "refuses unknown fields"
	FaultOnlyFull        Fault = "panics on partial objects"
	FaultRefusesPartial  Fault = "refuses partial objects"
)

// The faults that are about the answer as a whole.
const (
	FaultSwapsOrder     Fault = "swaps the order"
	FaultOneShort       Fault = "one object short"
	FaultWrongUID       Fault = "wrong uid of the response"
	FaultOnlyV1beta1    Fault = "answers only in v1beta1"
	FaultNotJSON        Fault = "no JSON"
	FaultNoContentType  Fault = "no content type"
	FaultNoResponse     Fault = "no response"
	FaultFailedSilently Fault = "failed without a message"
	FaultFailedObjects  Fault = "failed with objects"
	FaultHTTPError      Fault = "failures as HTTP errors"
	FaultAnyVersion     Fault = "converts to versions that do not exist"
	FaultAlwaysFails    Fault = "always fails"
	FaultCreated        Fault = "answers with the HTTP status 201"
	FaultRedirects      Fault = "redirects"
)

// The faults that are about the server.
const (
	FaultEveryTenth    Fault = "an HTTP error every tenth time"
	FaultSlow          Fault = "slow"
	FaultHangs         Fault = "hangs"
	FaultManyObjects   Fault = "only the first hundred objects"
	FaultLargeRequest  Fault = "refuses requests of more than 1 MB"
	FaultPanicsOnEmpty Fault = "panics on an empty list"
	FaultNotConcurrent Fault = "mixes up concurrent requests"
	FaultExpired       Fault = "expired certificate"
	FaultOtherHost     Fault = "certificate for another host"
	FaultOtherCA       Fault = "certificate of another CA"
)
