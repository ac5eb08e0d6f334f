package operation

import (
	"fmt"
	"maps"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/plan/state"
)

// keyring holds the lab's client key and one host key for each machine. Keys
// are made when first asked for and are on the disk before a guest gets them:
// a guest whose key is lost could not be reached again.
type keyring struct {
	store *state.Store // nil: read only
	mu    sync.Mutex
	raw   map[string][]byte
	spent map[string]bool // keys of machines that are gone
}

// clientKeyName cannot be a machine's address.
const clientKeyName = "client"

// openKeys reads the lab's keys; with a store those that are missing are made
// when they are asked for, and no earlier: a lab that is down needs none.
func openKeys(dir string, store *state.Store) (*keyring, error) {
	raw, err := state.ReadKeys(dir)
	if err != nil {
		return nil, err
	}
	return &keyring{store: store, raw: raw}, nil
}

// client returns the lab's client key.
func (k *keyring) client() (client.Key, error) { return k.host(clientKeyName) }

// host returns a machine's host key.
func (k *keyring) host(node string) (client.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.get(node)
}

// another has the next machine of that name get a key of its own. Until it asks
// for one the old key stays on the disk, where it does no harm: the machine that
// had it is gone.
func (k *keyring) another(node string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spent == nil {
		k.spent = map[string]bool{}
	}
	k.spent[node] = true
}

func (k *keyring) get(name string) (client.Key, error) {
	if private, ok := k.raw[name]; ok && !k.spent[name] {
		public, err := client.PublicOf(private)
		if err != nil {
			return client.Key{}, fmt.Errorf("key of %s: %w", name, err)
		}
		return client.Key{Private: private, Public: public}, nil
	}
	if k.store == nil {
		return client.Key{}, fmt.Errorf("there is no key of %s: the lab is not up", name)
	}
	key, err := client.NewKey("lvslab " + name)
	if err != nil {
		return client.Key{}, fmt.Errorf("key of %s: %w", name, err)
	}
	next := maps.Clone(k.raw)
	if next == nil {
		next = map[string][]byte{}
	}
	next[name] = key.Private
	if err := k.store.WriteKeys(next); err != nil {
		return client.Key{}, err
	}
	k.raw = next
	delete(k.spent, name)
	return key, nil
}
