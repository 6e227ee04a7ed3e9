// Package e2e holds tests that run the commands that change something from end
// to end: the real root command, or the built binary, against a real API server
// in this process. What is stored they prove by reading etcd. There is nothing
// else in it.
package e2e
