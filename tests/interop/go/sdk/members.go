package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

const (
	longAwait = 20 * time.Second
	pause     = 200 * time.Millisecond
)

func received(by string, view *rmq.MessageView) {
	body := string(view.GetBody())
	text, _, _ := strings.Cut(body, ".")
	emit(fields{"event": "received", "by": by, "body": text, "size": len(body), "attempt": view.GetDeliveryAttempt()})
}

// members runs a push consumer, a simple consumer and a producer until standard input is closed: see README.md.
func (p *program) members() error {
	topic := p.prefix + "Push"
	all := map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}
	simple, err := rmq.NewSimpleConsumer(p.config(p.prefix+"simple"), rmq.WithSimpleAwaitDuration(longAwait),
		rmq.WithSimpleSubscriptionExpressions(all))
	if err == nil {
		err = simple.Start()
	}
	if err != nil {
		return err
	}
	go receiveAlways(simple)
	consume := func(view *rmq.MessageView) rmq.ConsumerResult {
		received("push", view)
		return rmq.SUCCESS
	}
	push, err := rmq.NewPushConsumer(p.config(p.prefix+"push"), rmq.WithPushAwaitDuration(longAwait),
		rmq.WithPushSubscriptionExpressions(all),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	if err == nil {
		err = push.Start()
	}
	if err != nil {
		return err
	}
	producer, err := rmq.NewProducer(p.config(""), rmq.WithTopics(topic))
	if err == nil {
		err = producer.Start()
	}
	if err != nil {
		return err
	}
	emit(fields{"event": "started"})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var text string
		var size int
		if _, err := fmt.Sscan(lines.Text(), &text, &size); err != nil {
			return err
		}
		body := text + strings.Repeat(".", max(0, size-len(text)))
		receipts, err := producer.Send(context.Background(), &rmq.Message{Topic: topic, Body: []byte(body)})
		if err != nil {
			emit(fields{"event": "unsent", "body": text, "error": err.Error()})
		} else {
			emit(fields{"event": "sent", "body": text, "id": receipts[0].MessageID})
		}
	}
	return nil
}

func receiveAlways(consumer rmq.SimpleConsumer) {
	for {
		found, err := receive(consumer, invisible)
		for _, each := range found {
			received("simple", each)
			if err = consumer.Ack(context.Background(), each); err != nil {
				break
			}
		}
		if err != nil {
			emit(fields{"event": "failed", "error": err.Error()})
			time.Sleep(pause)
		}
	}
}
