// The owners that the real groupcache libraries choose.
//
//	ring v3|mailgun|original PEER... <KEYS >OWNERS
//
// KEYS has one key a line, in hexadecimal, because keys are any bytes. OWNERS has the peer of each, as it was given.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	original "github.com/golang/groupcache"
	originalpb "github.com/golang/groupcache/groupcachepb"
	"github.com/groupcache/groupcache-go/v3"
	"github.com/groupcache/groupcache-go/v3/transport/peer"
	mailgun "github.com/mailgun/groupcache/v2"
)

// The base URL of a pool that is none of its own peers, so that it names the owner of every key.
const stranger = "http://stranger.invalid"

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ring:", err)
		os.Exit(1)
	}
}

func run(args []string, keys io.Reader, owners io.Writer) error {
	if len(args) < 2 {
		return errors.New("type: ring v3|mailgun|original PEER...")
	}
	library, peers := args[0], args[1:]
	setups := map[string]func([]string) (func(string) (string, error), error){"v3": v3Owner, "mailgun": mailgunOwner, "original": originalOwner}
	setup, known := setups[library]
	if !known {
		return fmt.Errorf("no library %q: v3, mailgun or original", library)
	}
	owner, err := setup(peers)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(owners)
	lines := bufio.NewScanner(keys)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, err := hex.DecodeString(lines.Text())
		if err != nil {
			return err
		}
		name, err := owner(string(key))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, name)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

// groupcache-go v3: peers are host:port. One of them is always the instance's own.
func v3Owner(peers []string) (func(string) (string, error), error) {
	instance := groupcache.New(groupcache.Options{})
	infos := make([]peer.Info, len(peers))
	for i, address := range peers {
		infos[i] = peer.Info{Address: address, IsSelf: i == 0}
	}
	if err := instance.SetPeers(context.Background(), infos); err != nil {
		return nil, err
	}
	return func(key string) (string, error) {
		owner, _ := instance.PickPeer(key)
		return owner.PeerInfo().Address, nil
	}, nil
}

// mailgun's groupcache: peers are base URLs.
func mailgunOwner(peers []string) (func(string) (string, error), error) {
	pool := mailgun.NewHTTPPoolOpts(stranger, nil)
	pool.Set(peers...)
	return func(key string) (string, error) {
		owner, _ := pool.PickPeer(key)
		return strings.TrimSuffix(owner.GetURL(), "/_groupcache/"), nil
	}, nil
}

// The original: peers are base URLs. Its handle of a peer tells nobody whose it is, so the request that it would send has to.
func originalOwner(peers []string) (func(string) (string, error), error) {
	pool := original.NewHTTPPoolOpts(stranger, nil)
	var sent requests
	pool.Transport = func(context.Context) http.RoundTripper { return &sent }
	pool.Set(peers...)
	group, none := "g", "k"
	return func(key string) (string, error) {
		owner, _ := pool.PickPeer(key)
		err := owner.Get(context.Background(), &originalpb.GetRequest{Group: &group, Key: &none}, &originalpb.GetResponse{})
		return sent.to, err
	}, nil
}

// A transport that sends nothing and keeps the base URL of the last request.
type requests struct{ to string }

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.to = request.URL.Scheme + "://" + request.URL.Host
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(nil)), Request: request}, nil
}
