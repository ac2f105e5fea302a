package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	askedWithin = time.Minute
	leaveAfter  = 500 * time.Millisecond // the answer to a check is oneway: let it leave
)

var states = map[string]primitive.LocalTransactionState{
	"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState,
	"unknown": primitive.UnknowState, "ask": primitive.UnknowState,
}

// decisions answers at once by the word at the start of the body, and when asked by the next of --answers, from the start again after the last.
type decisions struct {
	asked   sync.WaitGroup
	turn    sync.Mutex
	answers []string
	times   map[string]int
	open    map[string]bool
}

func (d *decisions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return states[strings.TrimRight(string(message.Body), "0123456789")]
}

func (d *decisions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.turn.Lock()
	defer d.turn.Unlock()
	body := string(message.Body)
	answer := d.answers[d.times[body]%len(d.answers)]
	d.times[body]++
	emit("asked", fields{"body": body, "answer": answer, "properties": message.GetProperties()})
	if answer != "unknown" && d.open[body] {
		d.open[body] = false
		d.asked.Done()
	}
	return states[answer]
}

// transact sends one message in a transaction for each word of --decide; "ask" is decided when the broker asks.
func transact(o options) error {
	words := strings.Split(o["decide"], ",")
	decided := &decisions{
		answers: strings.Split(o.text("answers", "commit"), ","), times: map[string]int{}, open: map[string]bool{},
	}
	client, err := rocketmq.NewTransactionProducer(
		decided,
		producer.WithNameServer(o.nameServers()), producer.WithCredentials(credentials()),
		producer.WithGroupName(o.text("group", "interop-go-transactions")),
	)
	if err != nil {
		return err
	}
	for i, word := range words {
		if word == "ask" {
			decided.open[word+strconv.Itoa(i)] = true
			decided.asked.Add(1)
		}
	}
	if err = client.Start(); err != nil {
		return err
	}
	for i, word := range words {
		message := primitive.NewMessage(o["topic"], []byte(word+strconv.Itoa(i))).WithTag("tag")
		result, err := client.SendMessageInTransaction(context.Background(), message)
		if err != nil {
			return err
		}
		emit("sent", addBody(fields{"index": i, "status": int(result.Status), "state": int(result.State)}, message.Body))
	}
	if !within(askedWithin, decided.asked.Wait) {
		return errors.New("the broker did not ask about every transaction")
	}
	time.Sleep(leaveAfter)
	return client.Shutdown()
}

func within(limit time.Duration, wait func()) bool {
	ended := make(chan struct{})
	go func() {
		wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// request asks --count questions one after the other and prints the answers.
func request(o options) error {
	client, err := rocketmq.NewProducer(
		producer.WithNameServer(o.nameServers()), producer.WithCredentials(credentials()),
		producer.WithGroupName(o.text("group", "interop-go-requests")),
	)
	if err != nil {
		return err
	}
	if err = client.Start(); err != nil {
		return err
	}
	ttl := time.Duration(o.number("ttl-ms", 10_000)) * time.Millisecond
	for i := 0; i < o.number("count", 1); i++ {
		message := primitive.NewMessage(o["topic"], []byte("question"+strconv.Itoa(i)))
		reply, err := client.Request(context.Background(), ttl, message)
		if err != nil {
			failed(i, err)
			return err
		}
		emit("answered", addBody(fields{"index": i}, reply.Body))
	}
	return client.Shutdown()
}
