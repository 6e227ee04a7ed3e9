// Package golden runs the reading commands as a process of its own, without a
// cluster, and compares everything they print with testdata/script/*.txtar:
//
//	go test ./pkg/cmd/golden           # compare
//	go test ./pkg/cmd/golden -update   # write what is printed into the scripts
package golden
