package libvirt

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// Target is a libvirt: where its socket is and what is asked for over it.
type Target struct {
	// Socket is the path of its socket on its machine.
	Socket string
	// URI is the one that libvirtd is asked for.
	URI string
	// Far is the machine; nil = this one.
	Far *Far
}

// Far is another machine, reached by SSH.
type Far struct {
	User string // "" = not given
	Host string
	Port int // 0 = not given
	// KeyFile and KnownHosts are paths here; "" = the usual ones.
	KeyFile, KnownHosts string
}

// systemSocket is where libvirtd listens by default.
const systemSocket = "/run/libvirt/libvirt-sock"

// ParseURI reads the name of a libvirt. It takes an absolute path, qemu:///system,
// qemu:///session, the same with qemu+unix and ?socket=PATH, and
// qemu+ssh://[USER@]HOST[:PORT]/system with socket, keyfile and known_hosts.
func ParseURI(target string) (Target, error) {
	if filepath.IsAbs(target) {
		return Target{Socket: target, URI: "qemu:///system"}, nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return Target{}, badURI(target, "it cannot be parsed: "+err.Error())
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Target{}, badURI(target, "it cannot be parsed: "+err.Error())
	}
	driver, transport, _ := strings.Cut(u.Scheme, "+")
	switch {
	case driver != "qemu":
		return Target{}, badURI(target, "only the driver qemu is supported")
	case transport == "ssh":
		return parseFar(target, u, query)
	case transport != "" && transport != "unix":
		return Target{}, badURI(target, "another machine's libvirt is reached by SSH alone: qemu+ssh")
	case u.Host != "":
		return Target{}, badURI(target, "it names another machine, and that is reached by qemu+ssh")
	case u.Path != "/system" && u.Path != "/session":
		return Target{}, badURI(target, "its path must be /system or /session")
	}
	if s := query.Get("socket"); s != "" {
		return Target{Socket: s, URI: "qemu://" + u.Path}, nil
	}
	if u.Path == "/system" {
		return Target{Socket: systemSocket, URI: "qemu:///system"}, nil
	}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if run == "" {
		run = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	return Target{Socket: filepath.Join(run, "libvirt", "libvirt-sock"), URI: "qemu:///session"}, nil
}

// parseFar reads qemu+ssh.
func parseFar(target string, u *url.URL, query url.Values) (Target, error) {
	t := Target{Socket: systemSocket, URI: "qemu://" + u.Path, Far: &Far{Host: u.Hostname()}}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			return t, badURI(strings.Replace(target, u.User.String(), u.User.Username()+":…", 1), "a password is not sent: keys alone open the connection")
		}
		t.Far.User = u.User.Username()
	}
	if p := u.Port(); p != "" {
		port, err := strconv.Atoi(p)
		if err != nil || port < 1 || port > 65535 {
			return t, badURI(target, "its port is not one of 1 to 65535")
		}
		t.Far.Port = port
	}
	switch {
	case t.Far.Host == "":
		return t, badURI(target, "it names no host")
	case strings.HasPrefix(t.Far.Host, "-"):
		return t, badURI(target, "no host is called so")
	case u.Path == "/session" && query.Get("socket") == "":
		return t, badURI(target, "where the socket of a session is on another machine must be said: ?socket=/run/user/UID/libvirt/libvirt-sock")
	case u.Path != "/system" && u.Path != "/session":
		return t, badURI(target, "its path must be /system, or /session with a socket")
	}
	for _, name := range sortedKeys(query) {
		if err := t.farParameter(target, name, query.Get(name)); err != nil {
			return t, err
		}
	}
	return t, nil
}

// farParameter takes one of libvirt's own URI parameters
// (https://libvirt.org/uri.html). Those that choose how ssh(1) is run mean
// nothing here, as none is run.
func (t *Target) farParameter(target, name, value string) error {
	switch name {
	case "socket":
		if !filepath.IsAbs(value) {
			return badURI(target, "its socket is not an absolute path")
		}
		t.Socket = value
	case "keyfile", "known_hosts":
		path, err := ownPath(value)
		if err != nil {
			return badURI(target, "its "+name+" is neither an absolute path nor one that begins with ~/")
		}
		if name == "keyfile" {
			t.Far.KeyFile = path
		} else {
			t.Far.KnownHosts = path
		}
	case "no_tty": // nobody is ever asked anything
	case "no_verify":
		if value != "0" {
			return unverified(target)
		}
	case "known_hosts_verify":
		if value != "normal" {
			return unverified(target)
		}
	default:
		return badURI(target, fmt.Sprintf("it has the parameter %q, and only socket, keyfile and known_hosts mean something here", name))
	}
	return nil
}

// ownPath is a path on this machine, ~/ being the user's home.
func ownPath(p string) (string, error) {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	if !filepath.IsAbs(p) {
		return "", fmt.Errorf("%q is not absolute", p)
	}
	return p, nil
}

// unverified: whoever could answer in the host's place would be handed root's
// images and the lab's keys, and would be believed all results.
func unverified(target string) error {
	return diag.Fail(nil, "The host's key is always verified",
		"Add the host's key to known_hosts (ssh-keyscan HOST, compared with the host's own file), or name a file that has it: ?known_hosts=PATH.",
		"%q asks to trust whoever answers: that one would get the lab's images and keys, and its results would be believed", target)
}

func sortedKeys(v url.Values) []string {
	var names []string
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func badURI(target, why string) error {
	return diag.Fail(nil, "Unsupported libvirt URI",
		`Use "embedded" (the default), "qemu:///system", "qemu+unix:///system?socket=PATH" or "qemu+ssh://USER@HOST/system".`, "%q: %s", target, why)
}
