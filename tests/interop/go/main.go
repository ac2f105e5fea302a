// Driver drives rocketmq-client-go, the official Go client, from a test:
//
//	driver produce  --namesrv A --topic T --count N [--mode sync|async|oneway|batch|queue|ordered] [--queue Q] [--batch N]
//	                [--tags a,b] [--keys-prefix K] [--body-prefix P] [--size BYTES] [--level L] [--property NAME=VALUE]
//	driver push     --namesrv A --topic T --group G [--sub "a || b"] [--model clustering|broadcasting] [--ordered yes]
//	                [--fail TIMES] [--max-reconsume N] [--next-level L] [--answer PREFIX]
//	driver pull     --namesrv A --topic T --group G --until N [--sub "a || b"]
//	driver transact --namesrv A --topic T --decide commit,rollback,ask,... [--answers commit|rollback|unknown,...]
//	driver request  --namesrv A --topic T --count N [--ttl-ms MS]
//
// One JSON object per line on standard output, as the Java driver prints them; the client's own log is standard error.
// A push consumer ends when its standard input is closed or on SIGTERM.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const shortBody = 1024

type fields map[string]interface{}

type options map[string]string

var printing sync.Mutex

func main() {
	commands := map[string]func(options) error{
		"produce": produce, "push": push, "pull": pull, "transact": transact, "request": request,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: driver produce|push|pull|transact|request --namesrv HOST:PORT --topic T ...")
		os.Exit(2)
	}
	chosen := options{}
	for i := 2; i+1 < len(os.Args); i += 2 {
		chosen[strings.TrimPrefix(os.Args[i], "--")] = os.Args[i+1]
	}
	if err := commands[os.Args[1]](chosen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	emit("done", fields{})
}

func (o options) text(name, otherwise string) string {
	if value, found := o[name]; found {
		return value
	}
	return otherwise
}

func (o options) number(name string, otherwise int) int {
	number, err := strconv.Atoi(o.text(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(fmt.Sprintf("--%s is no number: %v", name, err))
	}
	return number
}

func (o options) nameServers() primitive.NamesrvAddr {
	return strings.Split(o["namesrv"], ";")
}

// credentials of the environment; without a key the client does not sign.
func credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: os.Getenv("INTEROP_ACCESS_KEY"), SecretKey: os.Getenv("INTEROP_SECRET_KEY")}
}

func emit(event string, more fields) {
	more["event"] = event
	line, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf("%s\n", line)
}

func failed(index int, err error) {
	emit("error", fields{"index": index, "message": err.Error()})
}

func addBody(to fields, body []byte) fields {
	digest := sha256.Sum256(body)
	to["bodyLength"], to["bodySha256"] = len(body), hex.EncodeToString(digest[:])
	if len(body) <= shortBody {
		to["body"] = string(body)
	}
	return to
}

// textOrNull is nil for the empty text, which the client gives for a property that is not there.
func textOrNull(text string) interface{} {
	if text == "" {
		return nil
	}
	return text
}

func received(message *primitive.MessageExt) {
	emit("received", addBody(fields{
		"topic":          message.Topic,
		"tags":           textOrNull(message.GetTags()),
		"keys":           textOrNull(strings.TrimSpace(message.GetKeys())),
		"msgId":          message.MsgId,
		"queueId":        message.Queue.QueueId,
		"queueOffset":    message.QueueOffset,
		"reconsumeTimes": message.ReconsumeTimes,
		"bornTimestamp":  message.BornTimestamp,
		"storeTimestamp": message.StoreTimestamp,
		"properties":     message.GetProperties(),
	}, message.Body))
}

// untilClosed waits for the end of standard input or SIGTERM.
func untilClosed() {
	closed := make(chan os.Signal, 2)
	signal.Notify(closed, syscall.SIGTERM)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		closed <- syscall.SIGTERM
	}()
	<-closed
}
