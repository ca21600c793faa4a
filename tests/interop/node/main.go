// A node of groupcache-go v3: its HTTP transport, a getter that counts its calls, and a port by which a test steers it.
//
//	node [-control 127.0.0.1:0] [-group default] [-ttl 0] [-prefix go:] [-peers ADDRESS,…] [-while-input] [ADDRESS]
//
// ADDRESS is where it answers peers, and GET /data/{id}; any free port of 127.0.0.1 otherwise. It prints one line of JSON when it is ready,
// with both addresses. With -while-input it ends with its standard input, and so with the test. It is its own only peer unless it is told others. Its getter answers go:KEY, but an absent: key is not found and an error: key fails.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/groupcache/groupcache-go/v3"
	"github.com/groupcache/groupcache-go/v3/transport"
	"github.com/groupcache/groupcache-go/v3/transport/peer"
)

func main() {
	whileInput := flag.Bool("while-input", false, "end with the standard input")
	control := flag.String("control", "127.0.0.1:0", "address by which the node is steered")
	groupName := flag.String("group", "default", "name of the group")
	ttl := flag.Duration("ttl", 0, "life of what the getter answers; 0 has no end")
	prefix := flag.String("prefix", "go:", "what the getter puts before the key")
	bytes := flag.Int64("bytes", 64<<20, "bytes of the group's caches")
	peers := flag.String("peers", "", "addresses of all nodes, with commas between them")
	flag.Parse()
	listen := "127.0.0.1:0"
	if flag.NArg() > 0 {
		listen = flag.Arg(0)
	}
	if err := run(listen, *control, *whileInput, *groupName, *bytes, *peers, &getter{ttl: *ttl, prefix: *prefix, calls: map[string]int{}}); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func run(listen, control string, whileInput bool, groupName string, bytes int64, all string, getter *getter) error {
	peers, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	controls, err := net.Listen("tcp", control)
	if err != nil {
		return err
	}
	messages := transport.NewHttpTransport(transport.HttpTransportOptions{})
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	instance := groupcache.New(groupcache.Options{Transport: messages, Logger: logger})
	group, err := instance.NewGroup(groupName, bytes, getter)
	if err != nil {
		return err
	}
	node := &node{self: peers.Addr().String(), instance: instance, group: group, getter: getter}
	addresses := []string{node.self}
	if all != "" {
		addresses = strings.Split(all, ",")
	}
	if err := node.setPeers(addresses); err != nil {
		return err
	}

	public := http.NewServeMux()
	public.Handle(transport.DefaultBasePath, messages)
	public.HandleFunc("GET /data/{id}", func(w http.ResponseWriter, r *http.Request) { node.get(w, r, r.PathValue("id")) })
	failed := make(chan error, 3)
	go func() { failed <- http.Serve(peers, public) }()
	go func() { failed <- http.Serve(controls, node.control()) }()
	if whileInput {
		go func() {
			_, err := io.Copy(io.Discard, os.Stdin)
			failed <- err
		}()
	}
	ready := map[string]any{"ready": true, "address": node.self, "control": controls.Addr().String()}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return <-failed
}

// The node's source.
type getter struct {
	ttl    time.Duration
	prefix string
	lock   sync.Mutex
	calls  map[string]int
}

func (g *getter) Get(_ context.Context, key string, into transport.Sink) error {
	g.lock.Lock()
	g.calls[key]++
	g.lock.Unlock()
	switch {
	case strings.HasPrefix(key, "absent:"):
		return &transport.ErrNotFound{Msg: "not found"}
	case strings.HasPrefix(key, "error:"):
		return fmt.Errorf("the source of %q fails", key)
	}
	var expire time.Time
	if g.ttl > 0 {
		expire = time.Now().Add(g.ttl)
	}
	return into.SetBytes([]byte(g.prefix+key), expire)
}

type node struct {
	self     string
	instance *groupcache.Instance
	group    groupcache.Group
	getter   *getter
}

// The peers' addresses; the node's own must be among them.
func (n *node) setPeers(addresses []string) error {
	infos := make([]peer.Info, len(addresses))
	for i, address := range addresses {
		infos[i] = peer.Info{Address: address, IsSelf: address == n.self}
	}
	return n.instance.SetPeers(context.Background(), infos)
}

// The routes of the control port. A key is percent-encoded in ?key=.
func (n *node) control() http.Handler {
	routes := http.NewServeMux()
	key := func(r *http.Request) string { return r.URL.Query().Get("key") }
	routes.HandleFunc("PUT /peers", func(w http.ResponseWriter, r *http.Request) {
		var addresses []string
		if decode(w, r, &addresses) {
			answer(w, n.setPeers(addresses))
		}
	})
	routes.HandleFunc("GET /owner", func(w http.ResponseWriter, r *http.Request) {
		owner, _ := n.instance.PickPeer(key(r))
		fmt.Fprint(w, owner.PeerInfo().Address)
	})
	routes.HandleFunc("GET /key", func(w http.ResponseWriter, r *http.Request) { n.get(w, r, key(r)) })
	// ?ttl= is a duration such as 10s; without it the value has no end.
	routes.HandleFunc("PUT /key", func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(r.Body)
		var expire time.Time
		if ttl := r.URL.Query().Get("ttl"); ttl != "" && err == nil {
			var life time.Duration
			life, err = time.ParseDuration(ttl)
			expire = time.Now().Add(life)
		}
		if err == nil {
			err = n.group.Set(r.Context(), key(r), value, expire, false)
		}
		answer(w, err)
	})
	routes.HandleFunc("DELETE /key", func(w http.ResponseWriter, r *http.Request) { answer(w, n.group.Remove(r.Context(), key(r))) })
	routes.HandleFunc("POST /remove-keys", func(w http.ResponseWriter, r *http.Request) {
		var keys []string
		if decode(w, r, &keys) {
			answer(w, n.group.RemoveKeys(r.Context(), keys...))
		}
	})
	routes.HandleFunc("GET /stats", n.stats)
	return routes
}

func (n *node) get(w http.ResponseWriter, r *http.Request, key string) {
	var value []byte
	err := n.group.Get(r.Context(), key, transport.AllocatingByteSliceSink(&value))
	switch err.(type) {
	case nil:
		w.Header().Set("Content-Length", strconv.Itoa(len(value)))
		_, _ = w.Write(value)
	case *transport.ErrNotFound:
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// How often the getter was called, in all and for ?key=, and the library's own counters.
func (n *node) stats(w http.ResponseWriter, r *http.Request) {
	n.getter.lock.Lock()
	calls, all := n.getter.calls[r.URL.Query().Get("key")], 0
	for _, count := range n.getter.calls {
		all += count
	}
	n.getter.lock.Unlock()
	main, hot := n.group.UsedBytes()
	stats := map[string]any{"calls": calls, "calls_all": all, "main_bytes": main, "hot_bytes": hot, "group": n.group.GroupStats()}
	_ = json.NewEncoder(w).Encode(stats)
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(r.Body).Decode(into)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
