package harness

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// service stands in for a Service in front of the controllers (their webhooks, the visibility API): it
// forwards each TCP
// connection to the next backend that accepts one. TLS is end to end between the API server and the
// controller.
type service struct {
	listener net.Listener
	accepted atomic.Int64

	mu       sync.Mutex
	backends []string
	next     int
}

func (c *Cluster) startService() error {
	for _, service := range []**service{&c.service, &c.visibility} {
		started, err := newService()
		if err != nil {
			return err
		}
		*service = started
	}
	return nil
}

func newService() (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	started := &service{listener: listener}
	go started.accept()
	return started, nil
}

// WebhookConnections is the number of connections that the API server has opened to the webhooks.
func (c *Cluster) WebhookConnections() int64 {
	if c.service == nil {
		return 0
	}
	return c.service.accepted.Load()
}

// URL is where the API server finds the webhooks.
func (s *service) url() string { return "https://" + s.listener.Addr().String() }

// port is where the API server finds an aggregated API on the host localhost.
func (s *service) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *service) add(backend string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backends = append(s.backends, backend)
}

func (s *service) remove(backend string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.backends[:0]
	for _, have := range s.backends {
		if have != backend {
			kept = append(kept, have)
		}
	}
	s.backends = kept
}

func (s *service) close() {
	if s != nil {
		s.listener.Close()
	}
}

// order is the backends to try, the next one first.
func (s *service) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.backends) == 0 {
		return nil
	}
	s.next = (s.next + 1) % len(s.backends)
	return append(append([]string{}, s.backends[s.next:]...), s.backends[:s.next]...)
}

func (s *service) accept() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.accepted.Add(1)
		go s.forward(client)
	}
}

func (s *service) forward(client net.Conn) {
	defer client.Close()
	for _, backend := range s.order() {
		server, err := net.DialTimeout("tcp", backend, 2*time.Second)
		if err != nil {
			continue
		}
		defer server.Close()
		done := make(chan struct{}, 2)
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.(*net.TCPConn).CloseWrite()
			done <- struct{}{}
		}
		go pipe(server, client)
		go pipe(client, server)
		<-done
		<-done
		return
	}
}
