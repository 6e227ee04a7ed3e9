// Package printers writes what the commands answer: tables in kubectl's look,
// descriptions of one thing, and the machine-readable formats of kubectl's
// --output flag. What comes from a cluster or a file is not trusted: whatever a
// terminal would obey is written escaped.
package printers
