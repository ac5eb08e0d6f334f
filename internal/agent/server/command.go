package server

import (
	"os"
	"os/exec"
	"strings"
)

// searchPath is the PATH of commands: /usr/sbin holds named, ipvsadm and ip.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func environment() []string {
	return []string{"PATH=" + searchPath, "HOME=/root", "USER=root", "LOGNAME=root", "LANG=C.UTF-8"}
}

// shellCommand is an interactive login shell.
func shellCommand() *exec.Cmd {
	for _, sh := range []string{"/bin/bash", "/bin/sh"} {
		if _, err := os.Stat(sh); err == nil {
			cmd := exec.Command(sh)
			cmd.Args[0] = "-" + sh[strings.LastIndexByte(sh, '/')+1:]
			return cmd
		}
	}
	return exec.Command("/bin/sh")
}

// command makes a command of what a client sent for exec. SSH sends a text for
// the user's shell; when the text is nothing but words, the program is started
// directly, which saves one exec (about 15 ms under emulation).
func command(text string) *exec.Cmd {
	if words, plain := splitWords(text); plain && len(words) > 0 {
		if path, err := lookPath(words[0]); err == nil {
			return &exec.Cmd{Path: path, Args: words}
		}
	}
	return exec.Command("/bin/sh", "-c", text)
}

// lookPath searches the guest's path and not the agent's own environment.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for dir := range strings.SplitSeq(searchPath, ":") {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// shellBuiltins mean something else to a shell than the program of that name,
// or exist in the shell only.
const shellBuiltins = " . : [ alias bg break case cd command continue do done echo elif else esac eval exec exit export " +
	"false fg fi for function getopts hash help history if jobs kill let local printf pwd read readonly return set shift " +
	"source test then time times trap true type ulimit umask unalias unset until wait while { } ! "

// splitWords splits a text that consists of plain words and words in single
// quotes. It reports false for anything that a shell would treat specially.
func splitWords(text string) (words []string, plain bool) {
	var word strings.Builder
	started := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			word.WriteString(text[i+1 : i+1+end])
			started, i = true, i+1+end
		case c == ' ' || c == '\t':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		case isPlain(c):
			word.WriteByte(c)
			started = true
		default:
			return nil, false
		}
	}
	if started {
		words = append(words, word.String())
	}
	if len(words) > 0 && (strings.Contains(words[0], "=") || strings.Contains(shellBuiltins, " "+words[0]+" ")) {
		return nil, false
	}
	return words, true
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("_-./:,+@%=^", c) >= 0 || c >= 0x80
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
