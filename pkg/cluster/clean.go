package cluster

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage is the length, in bytes, at which messages of servers are cut:
// validation can list hundreds of fields.
const maxMessage = 1000

// clean makes a text of the server fit to be shown and kept: it takes out the
// values of fields, which may be secrets, escapes what a terminal would obey,
// and cuts it.
func clean(message string) string {
	return cut(escape(hideValues(message)))
}

// hideValues replaces what upstream's field errors say of the offending value:
// `spec.token: Invalid value: "s3cret": must be ...`.
func hideValues(message string) string {
	marker := regexp.MustCompile(`(Invalid|Unsupported|Duplicate) value: `)
	var out strings.Builder
	for {
		at := marker.FindStringIndex(message)
		if at == nil {
			out.WriteString(message)
			return out.String()
		}
		out.WriteString(message[:at[1]])
		out.WriteString("<hidden>")
		message = message[at[1]+valueLength(message[at[1]:]):]
	}
}

// valueLength returns the length of the value at the start of text: a quoted
// string, JSON, or what runs up to the next separator.
func valueLength(text string) int {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		return len(quoted)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	var value json.RawMessage
	if err := decoder.Decode(&value); err == nil {
		return int(decoder.InputOffset())
	}
	if end := strings.Index(text, ": "); end >= 0 {
		return end
	}
	return len(text)
}

// escape writes out control characters, and those that change the direction of
// the text, as Go does.
func escape(message string) string {
	var out strings.Builder
	for _, r := range message {
		switch {
		case r == '\n':
			out.WriteByte(' ')
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d more bytes)", message[:end], len(message)-end)
}
