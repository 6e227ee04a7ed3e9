// Package review speaks ConversionReview, the protocol between the API server
// and a conversion webhook, and converts custom resources with what a CRD
// configures: a webhook, or nothing but another apiVersion.
package review
