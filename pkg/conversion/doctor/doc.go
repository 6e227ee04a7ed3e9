// Package doctor examines a conversion webhook: it speaks ConversionReview to
// it, as the API server does and in the ways in which the API server might, and
// says of each thing that the protocol demands what came back. It writes nothing
// to a cluster.
package doctor
