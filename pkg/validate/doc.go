// Package validate holds the rules about the versions of a CRD and runs them.
//
// A rule is one value in a file of its own: an id that never changes, a
// severity, why it matters, how to fix it, and a function from a [Subject] to
// [Problem]s. What the API server refuses is found by the server's own code
// (see [Refusals]); a rule can claim such an error by its field and message, to
// explain it better than the rule "server-validation" could.
package validate
