package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// largeRequest is what a webhook with a limit refuses.
	largeRequest = 1_000_000
	// firstObjects is how many one with another limit converts.
	firstObjects = 100
)

// converterRequest and converterAnswer are both versions of ConversionReview.
type converterRequest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID               string            `json:"uid"`
		DesiredAPIVersion string            `json:"desiredAPIVersion"`
		Objects           []json.RawMessage `json:"objects"`
	} `json:"request"`
}

type (
	converterAnswer struct {
		APIVersion string             `json:"apiVersion"`
		Kind       string             `json:"kind"`
		Response   *converterResponse `json:"response,omitempty"`
	}
	converterResponse struct {
		UID              string            `json:"uid"`
		Result           map[string]string `json:"result"`
		ConvertedObjects []map[string]any  `json:"convertedObjects"`
	}
)

// serve answers one request.
func (c *Converter) serve(w http.ResponseWriter, r *http.Request) {
	call := conversion{fault: c.currentFault(), call: c.calls.Add(1), concurrent: c.running.Add(1) > 1}
	defer c.running.Add(-1)
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case call.fault == FaultHangs:
		select {
		case <-r.Context().Done():
		case <-c.stopping:
		}
		return
	case call.fault == FaultSlow, call.fault == FaultNotConcurrent:
		time.Sleep(c.delay)
		call.concurrent = call.concurrent || c.running.Load() > 1
	case call.fault == FaultEveryTenth && call.call%10 == 0:
		http.Error(w, "out of luck", http.StatusInternalServerError)
		return
	case call.fault == FaultLargeRequest && len(text) > largeRequest:
		http.Error(w, "http: request body too large", http.StatusRequestEntityTooLarge)
		return
	case call.fault == FaultRedirects:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	}
	var request converterRequest
	if err := json.Unmarshal(text, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := call.answer(request)
	status := http.StatusOK
	switch {
	case call.fault == FaultHTTPError && answer.Response.Result["status"] != "Success":
		http.Error(w, answer.Response.Result["message"], http.StatusInternalServerError)
		return
	case call.fault == FaultNotJSON:
		_, _ = io.WriteString(w, "<html>It works!</html>") // Whoever asked may be gone.
		return
	case call.fault == FaultNoContentType:
		w.Header()["Content-Type"] = nil
	case call.fault == FaultCreated:
		w.Header().Set("Content-Type", "application/json")
		status = http.StatusCreated
	default:
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // As above.
}

func (c *Converter) currentFault() Fault {
	fault, _ := c.fault.Load().(Fault)
	return fault
}

// conversion is one call.
type conversion struct {
	fault      Fault
	call       int64
	concurrent bool
}

// answer converts the objects of a request and puts the answer together.
func (c conversion) answer(request converterRequest) converterAnswer {
	response := &converterResponse{UID: request.Request.UID, Result: map[string]string{"status": "Success"}, ConvertedObjects: []map[string]any{}}
	answer := converterAnswer{APIVersion: request.APIVersion, Kind: request.Kind, Response: response}
	if err := c.objects(request, response); err != nil {
		c.fail(request, response, err)
	}
	switch c.fault {
	case FaultSwapsOrder:
		slices.Reverse(response.ConvertedObjects)
	case FaultOneShort:
		response.ConvertedObjects = response.ConvertedObjects[:max(len(response.ConvertedObjects)-1, 0)]
	case FaultManyObjects:
		response.ConvertedObjects = response.ConvertedObjects[:min(len(response.ConvertedObjects), firstObjects)]
	case FaultWrongUID:
		response.UID = "a-fixed-one"
	case FaultOnlyV1beta1:
		answer.APIVersion = apiextensionsv1.GroupName + "/v1beta1"
	case FaultNoResponse:
		answer.Response = nil
	default:
	}
	return answer
}

// objects converts all objects of a request.
func (c conversion) objects(request converterRequest, response *converterResponse) error {
	_, version, _ := strings.Cut(request.Request.DesiredAPIVersion, "/")
	if version != "v1" && version != "v1beta1" && c.fault != FaultAnyVersion {
		return fmt.Errorf("no conversion to %s", request.Request.DesiredAPIVersion)
	}
	if c.fault == FaultAlwaysFails {
		return errors.New("the converter is out of order")
	}
	if c.fault == FaultPanicsOnEmpty && len(request.Request.Objects) == 0 {
		panic(http.ErrAbortHandler)
	}
	first := ""
	for _, raw := range request.Request.Objects {
		object := map[string]any{}
		var err error
		if c.fault == FaultLosesPrecision {
			err = json.Unmarshal(raw, &object) // Every number is a float64.
		} else {
			err = utiljson.Unmarshal(raw, &object)
		}
		if err != nil {
			return fmt.Errorf("an object cannot be read: %w", err)
		}
		from, _ := object["apiVersion"].(string)
		if first == "" {
			first = from
		}
		if c.fault == FaultMixed {
			from = first
		}
		if err := c.object(object, from, request.Request.DesiredAPIVersion); err != nil {
			return err
		}
		response.ConvertedObjects = append(response.ConvertedObjects, object)
	}
	return nil
}

// fail makes the answer one that says that the conversion failed.
func (c conversion) fail(request converterRequest, response *converterResponse, err error) {
	response.Result = map[string]string{"status": "Failure", "message": err.Error()}
	response.ConvertedObjects = nil
	switch c.fault {
	case FaultFailedSilently:
		delete(response.Result, "message")
	case FaultFailedObjects:
		for _, raw := range request.Request.Objects {
			object := map[string]any{}
			if json.Unmarshal(raw, &object) == nil {
				response.ConvertedObjects = append(response.ConvertedObjects, object)
			}
		}
	default:
	}
}
