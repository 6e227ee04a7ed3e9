package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func webhookOnLocalhost() Rule {
	return Rule{
		ID:       "webhook-on-localhost",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the conversion webhook is on localhost",
		Why: "The API server calls its own machine. That works where the webhook runs beside every API server, as on a developer's machine, " +
			"and nowhere else.",
		Fix: "Name the service of the webhook, or a host that every API server of the cluster can reach.",
		Check: func(s *Subject) []Problem {
			config := s.clientConfig()
			if config == nil || config.URL == nil || config.Service != nil {
				return nil
			}
			host := hostOf(*config.URL)
			if !local(host) {
				return nil
			}
			return []Problem{{
				Path:    clientConfigPath + ".url",
				Message: "the conversion webhook is on " + host + ", which is each API server's own machine",
			}}
		},
	}
}

// hostOf returns the host of a URL that the server takes: https://host[:port][/path].
func hostOf(address string) string {
	_, host, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	host = host[strings.LastIndex(host, "@")+1:]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, _, _ = strings.Cut(inner, "]")
		return host
	}
	host, _, _ = strings.Cut(host, ":")
	return host
}

// local reports whether a host is the one that asks.
func local(host string) bool {
	if rest, ok := strings.CutPrefix(host, "127."); ok {
		return strings.Trim(rest, "0123456789.") == ""
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "::1" || host == "0.0.0.0" || host == "::"
}
