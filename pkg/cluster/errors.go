package cluster

import "errors"

// ErrNotSupported says that the server does not have the API that was asked for.
var ErrNotSupported = errors.New("not supported by this server")
