// Checks rocketmq-clients/golang/v5, the official SDK for gRPC: sdk checks HOST:PORT PREFIX
// With the word members in place of checks it runs clients until standard input is closed, with lite it checks lite topics
// and priorities.
//
// Topics and groups are named PREFIX and the words of README.md. One JSON line per check on standard output; the
// SDK's own log is below the home folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	await     = 5 * time.Second
	invisible = 10 * time.Second
	limit     = 25 * time.Second
)

type fields map[string]interface{}

// attempts of a push consumer, as "body attempt".
type attempts struct {
	sync.Mutex
	seen []string
}

type program struct {
	endpoint, prefix                              string
	producer                                      rmq.Producer
	normal, fifo, delay, transaction, tagged, sql rmq.SimpleConsumer
	asked, pushed, ordered                        attempts
	due, lastNormal                               time.Time
}

func main() {
	p := &program{endpoint: os.Args[2], prefix: os.Args[3]}
	run := p.checks
	switch os.Args[1] {
	case "members":
		run = p.members
	case "lite":
		run = p.lite
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (p *program) checks() error {
	if err := p.start(); err != nil {
		return err
	}
	check("recall", p.checkRecall)
	check("delay", p.checkDelay)
	check("normal", p.checkNormal)
	check("invisible", p.checkInvisible)
	check("fifo", p.checkFifo)
	check("tag", p.checkTag)
	check("sql92", func() (fields, error) { return gathered(p.sql, []string{"C", "D"}) })
	refused("unknown_topic", func() error { return p.send(p.message("Unknown", "x")) })
	refused("wrong_type", func() error {
		message := p.message("Normal", "x")
		message.SetMessageGroup("g")
		return p.send(message)
	})
	refused("illegal_name", func() error { return p.send(&rmq.Message{Topic: "bad topic!", Body: []byte("x")}) })
	refused("system_topic", func() error {
		return p.send(&rmq.Message{Topic: "RMQ_SYS_TRANS_HALF_TOPIC", Body: []byte("x")})
	})
	check("transaction", p.checkTransaction)
	check("push", p.checkPush)
	check("ordered", p.checkOrdered)
	check("dead_letters", func() (fields, error) { return p.checkDead("push") })
	check("ordered_dead_letters", func() (fields, error) { return p.checkDead("ordered") })
	check("nothing_more", p.checkNothingMore)
	emit(fields{"event": "done"})
	return nil
}

func emit(line fields) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
}

func check(name string, run func() (fields, error)) {
	start := time.Now()
	more, err := run()
	line := fields{"event": "check", "check": name, "ok": err == nil, "seconds": time.Since(start).Seconds()}
	if err != nil {
		line["error"] = err.Error()
	}
	for key, value := range more {
		line[key] = value
	}
	emit(line)
}

// refused checks that an action fails; code is null where the SDK itself refuses.
func refused(name string, action func() error) {
	check(name, func() (fields, error) {
		err := action()
		if err == nil {
			return nil, errors.New("not refused")
		}
		if status, ok := rmq.AsErrRpcStatus(err); ok {
			return fields{"code": status.Code, "message": status.Message}, nil
		}
		return fields{"code": nil, "message": err.Error()}, nil
	})
}

func equal(actual, expected interface{}) error {
	if !reflect.DeepEqual(actual, expected) {
		return fmt.Errorf("%v instead of %v", actual, expected)
	}
	return nil
}

func until(condition func() bool, shown func() interface{}) error {
	for end := time.Now().Add(limit); !condition(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("after %v: %v", limit, shown())
		}
	}
	return nil
}

func (a *attempts) add(body string, attempt int32) (first bool) {
	a.Lock()
	defer a.Unlock()
	first = true
	for _, each := range a.seen {
		first = first && !strings.HasPrefix(each, body+" ")
	}
	a.seen = append(a.seen, fmt.Sprintf("%s %d", body, attempt))
	return first
}

func (a *attempts) all() []string {
	a.Lock()
	defer a.Unlock()
	return append([]string{}, a.seen...)
}

// bodies without the attempts, each once.
func (a *attempts) bodies() []string {
	found := []string{}
	known := map[string]bool{}
	for _, each := range a.all() {
		body := each[:strings.LastIndex(each, " ")]
		if !known[body] {
			found = append(found, body)
		}
		known[body] = true
	}
	return found
}

func (p *program) config(group string) *rmq.Config {
	return &rmq.Config{Endpoint: p.endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func (p *program) message(kind, body string) *rmq.Message {
	return &rmq.Message{Topic: p.prefix + kind, Body: []byte(body)}
}

func (p *program) send(message *rmq.Message) error {
	_, err := p.producer.Send(context.Background(), message)
	return err
}

func (p *program) simple(topic, group string, expression *rmq.FilterExpression) (rmq.SimpleConsumer, error) {
	consumer, err := rmq.NewSimpleConsumer(p.config(p.prefix+group), rmq.WithSimpleAwaitDuration(await),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: expression}))
	if err == nil {
		err = consumer.Start()
	}
	return consumer, err
}

// push starts a push consumer that fails "again" the first time and "dead" always.
func (p *program) push(topic string, seen *attempts) error {
	consume := func(view *rmq.MessageView) rmq.ConsumerResult {
		body := string(view.GetBody())
		first := seen.add(body, view.GetDeliveryAttempt())
		if body == "dead" || body == "again" && first {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	consumer, err := rmq.NewPushConsumer(p.config(p.prefix+strings.ToLower(topic)), rmq.WithPushAwaitDuration(await),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{p.prefix + topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	if err == nil {
		err = consumer.Start()
	}
	return err
}

func (p *program) start() error {
	decide := func(view *rmq.MessageView) rmq.TransactionResolution {
		body := string(view.GetBody())
		p.asked.add(body, view.GetDeliveryAttempt())
		if strings.Contains(body, "rollback") {
			return rmq.ROLLBACK
		}
		return rmq.COMMIT
	}
	topics := []string{}
	for _, kind := range []string{"Normal", "Filter", "Fifo", "Delay", "Transaction", "Push", "Ordered"} {
		topics = append(topics, p.prefix+kind)
	}
	var err error
	p.producer, err = rmq.NewProducer(p.config(""), rmq.WithTopics(topics...),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: decide}))
	if err == nil {
		err = p.producer.Start()
	}
	if err != nil {
		return err
	}
	sql := rmq.NewFilterExpressionWithType("number > 1", rmq.SQL92)
	for _, wanted := range []struct {
		to           *rmq.SimpleConsumer
		topic, group string
		expression   *rmq.FilterExpression
	}{
		{&p.normal, "Normal", "normal", rmq.SUB_ALL},
		{&p.fifo, "Fifo", "fifo", rmq.SUB_ALL},
		{&p.delay, "Delay", "delay", rmq.SUB_ALL},
		{&p.transaction, "Transaction", "transaction", rmq.SUB_ALL},
		{&p.tagged, "Filter", "tag", rmq.NewFilterExpression("A || C")},
		{&p.sql, "Filter", "sql", sql},
	} {
		if *wanted.to, err = p.simple(p.prefix+wanted.topic, wanted.group, wanted.expression); err != nil {
			return err
		}
	}
	if err = p.push("Push", &p.pushed); err != nil {
		return err
	}
	if err = p.push("Ordered", &p.ordered); err != nil {
		return err
	}
	return p.sendEarly()
}

// sendEarly sends what takes its time to arrive.
func (p *program) sendEarly() error {
	for _, body := range []string{"one", "two", "again", "dead", "three"} {
		if err := p.send(p.message("Push", body)); err != nil {
			return err
		}
	}
	for _, body := range []string{"one", "dead", "two", "again", "three"} {
		message := p.message("Ordered", body)
		message.SetMessageGroup("g")
		if err := p.send(message); err != nil {
			return err
		}
	}
	for _, outcome := range []string{"commit", "rollback", "ask commit", "ask rollback"} {
		transaction := p.producer.BeginTransaction()
		_, err := p.producer.SendWithTransaction(context.Background(), p.message("Transaction", outcome), transaction)
		if err == nil && outcome == "commit" {
			err = transaction.Commit()
		}
		if err == nil && outcome == "rollback" {
			err = transaction.RollBack()
		}
		if err != nil {
			return err
		}
	}
	p.due = time.Now().Add(4 * time.Second)
	message := p.message("Delay", "delayed")
	message.SetDelayTimestamp(p.due)
	return p.send(message)
}

func bodies(found []*rmq.MessageView) []string {
	texts := []string{}
	for _, each := range found {
		texts = append(texts, string(each.GetBody()))
	}
	return texts
}

// receive returns no error if nothing was found.
func receive(consumer rmq.SimpleConsumer, hidden time.Duration) ([]*rmq.MessageView, error) {
	found, err := consumer.Receive(context.Background(), 16, hidden)
	if status, ok := rmq.AsErrRpcStatus(err); ok && status.Code == 40401 {
		return nil, nil
	}
	return found, err
}

// gather receives until there are count messages, and acknowledges them.
func gather(consumer rmq.SimpleConsumer, count int) ([]*rmq.MessageView, error) {
	all := []*rmq.MessageView{}
	for end := time.Now().Add(limit); len(all) < count && time.Now().Before(end); {
		found, err := receive(consumer, invisible)
		if err != nil {
			return all, err
		}
		for _, each := range found {
			if err := consumer.Ack(context.Background(), each); err != nil {
				return all, err
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

func gathered(consumer rmq.SimpleConsumer, expected []string) (fields, error) {
	found, err := gather(consumer, len(expected))
	texts := bodies(found)
	sort.Strings(texts)
	if wrong := equal(texts, expected); wrong != nil && err == nil {
		err = wrong
	}
	return nil, err
}

// checkRecall recalls a message that would arrive with that of checkDelay.
func (p *program) checkRecall() (fields, error) {
	message := p.message("Delay", "recalled")
	message.SetDelayTimestamp(p.due)
	receipts, err := p.producer.Send(context.Background(), message)
	if err != nil {
		return nil, err
	}
	id, err := p.producer.Recall(context.Background(), p.prefix+"Delay", receipts[0].RecallHandle)
	if err != nil {
		return nil, err
	}
	return nil, equal(id, receipts[0].MessageID)
}

func (p *program) checkDelay() (fields, error) {
	if _, err := gathered(p.delay, []string{"delayed"}); err != nil {
		return nil, err
	}
	if early := time.Until(p.due); early > 0 {
		return nil, fmt.Errorf("%v early", early)
	}
	return nil, nil
}

func (p *program) checkNormal() (fields, error) {
	sent, expected, seen := []string{}, []string{}, []string{}
	for number := 0; number < 3; number++ {
		message := p.message("Normal", fmt.Sprintf("body %d", number))
		message.SetTag("A")
		message.SetKeys(fmt.Sprintf("k%d", number), "common")
		message.AddProperty("number", fmt.Sprint(number))
		receipts, err := p.producer.Send(context.Background(), message)
		if err != nil {
			return nil, err
		}
		sent = append(sent, receipts[0].MessageID)
		expected = append(expected, fmt.Sprintf("body %d %s %sNormal A [k%d common] %d 1", number,
			receipts[0].MessageID, p.prefix, number, number))
	}
	found, err := gather(p.normal, 3)
	if err != nil {
		return nil, err
	}
	for _, each := range found {
		seen = append(seen, fmt.Sprintf("%s %s %s %s %v %s %d", each.GetBody(), each.GetMessageId(), each.GetTopic(),
			*each.GetTag(), each.GetKeys(), each.GetProperties()["number"], each.GetDeliveryAttempt()))
	}
	sort.Strings(seen)
	return fields{"ids": sent}, equal(seen, expected)
}

func (p *program) checkInvisible() (fields, error) {
	if err := p.send(p.message("Normal", "later")); err != nil {
		return nil, err
	}
	first := []*rmq.MessageView{}
	for end := time.Now().Add(limit); len(first) == 0 && time.Now().Before(end); {
		found, err := receive(p.normal, time.Minute)
		if err != nil {
			return nil, err
		}
		first = found
	}
	if err := equal(bodies(first), []string{"later"}); err != nil {
		return nil, err
	}
	if err := p.normal.ChangeInvisibleDuration(first[0], time.Second); err != nil {
		return nil, err
	}
	second, err := gather(p.normal, 1)
	if err != nil {
		return nil, err
	}
	p.lastNormal = time.Now()
	if err := equal(bodies(second), []string{"later"}); err != nil {
		return nil, err
	}
	if err := equal(second[0].GetMessageId(), first[0].GetMessageId()); err != nil {
		return nil, err
	}
	return nil, equal(second[0].GetDeliveryAttempt(), int32(2))
}

func (p *program) checkFifo() (fields, error) {
	sent := []string{"a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"}
	for _, body := range sent {
		message := p.message("Fifo", body)
		message.SetMessageGroup(body[:1])
		if err := p.send(message); err != nil {
			return nil, err
		}
	}
	found, err := gather(p.fifo, len(sent))
	if err != nil {
		return nil, err
	}
	for _, group := range []string{"a", "b"} {
		seen, expected := []string{}, []string{}
		for _, each := range found {
			if *each.GetMessageGroup() == group {
				seen = append(seen, string(each.GetBody()))
			}
		}
		for _, body := range sent {
			if body[:1] == group {
				expected = append(expected, body)
			}
		}
		if err := equal(seen, expected); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (p *program) checkTag() (fields, error) {
	for number, tag := range []string{"A", "B", "C", "D"} {
		message := p.message("Filter", tag)
		message.SetTag(tag)
		message.AddProperty("number", fmt.Sprint(number))
		if err := p.send(message); err != nil {
			return nil, err
		}
	}
	return gathered(p.tagged, []string{"A", "C"})
}

func (p *program) checkTransaction() (fields, error) {
	if _, err := gathered(p.transaction, []string{"ask commit", "commit"}); err != nil {
		return nil, err
	}
	both := func() bool { return len(p.asked.bodies()) >= 2 }
	if err := until(both, func() interface{} { return p.asked.all() }); err != nil {
		return nil, err
	}
	asked := p.asked.bodies()
	sort.Strings(asked)
	return fields{"asked": p.asked.all()}, equal(asked, []string{"ask commit", "ask rollback"})
}

func (p *program) checkPush() (fields, error) {
	wanted := []string{"again 1", "again 2", "dead 1", "dead 2", "one 1", "three 1", "two 1"}
	all := func() bool { return len(p.pushed.all()) >= len(wanted) }
	if err := until(all, func() interface{} { return p.pushed.all() }); err != nil {
		return nil, err
	}
	seen := p.pushed.all()
	sort.Strings(seen)
	return nil, equal(seen, wanted)
}

func (p *program) checkOrdered() (fields, error) {
	all := func() bool { return len(p.ordered.bodies()) == 5 }
	if err := until(all, func() interface{} { return p.ordered.all() }); err != nil {
		return nil, err
	}
	return fields{"seen": p.ordered.all()}, equal(p.ordered.bodies(), []string{"one", "dead", "two", "again", "three"})
}

func (p *program) checkDead(group string) (fields, error) {
	consumer, err := p.simple("%DLQ%"+p.prefix+group, group+"-dead", rmq.SUB_ALL)
	if err != nil {
		return nil, err
	}
	return gathered(consumer, []string{"dead"})
}

// checkNothingMore finds that what was acknowledged, recalled or rolled back does not arrive, after the invisible time
// either.
func (p *program) checkNothingMore() (fields, error) {
	time.Sleep(time.Until(p.lastNormal.Add(invisible + 2*time.Second)))
	consumers := []rmq.SimpleConsumer{p.normal, p.delay, p.transaction, p.tagged, p.sql, p.fifo}
	results := make(chan error, len(consumers))
	for _, consumer := range consumers {
		go func(from rmq.SimpleConsumer) {
			found, err := receive(from, invisible)
			if err == nil {
				err = equal(bodies(found), []string{})
			}
			results <- err
		}(consumer)
	}
	var failed error
	for range consumers {
		if err := <-results; err != nil {
			failed = err
		}
	}
	return nil, failed
}
