package main

import (
	"context"
	"errors"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	pollTimeout = 500 * time.Millisecond
	// A client asks before the broker knows it: its heartbeat follows its first question.
	knownWithin = time.Second
)

// push prints every message that comes. With --fail it refuses the first deliveries of each, with --answer it answers.
func push(o options) error {
	ordered := o["ordered"] == "yes"
	model := consumer.Clustering
	if o["model"] == "broadcasting" {
		model = consumer.BroadCasting
	}
	client, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(o.nameServers()), consumer.WithCredentials(credentials()),
		consumer.WithGroupName(o["group"]),
		consumer.WithConsumerModel(model),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(ordered),
		consumer.WithMaxReconsumeTimes(int32(o.number("max-reconsume", -1))),
		consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond),
	)
	if err != nil {
		return err
	}
	answers, err := answering(o)
	if err != nil {
		return err
	}
	fail := int32(o.number("fail", 0))
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			received(message)
			if err := answers(message); err != nil {
				failed(-1, err)
			}
			if message.ReconsumeTimes >= fail {
				continue
			}
			if ordered {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			if context, found := primitive.GetConcurrentlyCtx(ctx); found {
				context.DelayLevelWhenNextConsume = o.number("next-level", 0)
			}
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: o.text("sub", "*")}
	if err = client.Subscribe(o["topic"], selector, listen); err != nil {
		return err
	}
	if err = client.Start(); err != nil {
		return err
	}
	emit("started", fields{})
	untilClosed()
	return client.Shutdown()
}

// answering gives what a listener does with a request: it sends back its body behind --answer, where that is set.
func answering(o options) (func(*primitive.MessageExt) error, error) {
	if o["answer"] == "" {
		return func(*primitive.MessageExt) error { return nil }, nil
	}
	client, err := rocketmq.NewProducer(
		producer.WithNameServer(o.nameServers()), producer.WithCredentials(credentials()),
		producer.WithGroupName(o["group"]+"-answers"),
	)
	if err != nil {
		return nil, err
	}
	return func(message *primitive.MessageExt) error {
		// The client takes what it is given for the answer's properties, so the body is set by us.
		reply, err := consumer.CreateReplyMessage(message, nil)
		if err != nil {
			return err
		}
		time.Sleep(knownWithin)
		reply.Body = append([]byte(o["answer"]), message.Body...)
		_, err = client.SendSync(context.Background(), reply)
		return err
	}, client.Start()
}

// pull polls until --until messages have come, and acknowledges each.
func pull(o options) error {
	client, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(o.nameServers()), consumer.WithCredentials(credentials()),
		consumer.WithGroupName(o["group"]),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: o.text("sub", "*")}
	if err = client.Subscribe(o["topic"], selector); err != nil {
		return err
	}
	if err = client.Start(); err != nil {
		return err
	}
	end := time.Now().Add(time.Minute)
	for left := o.number("until", 1); left > 0; {
		if time.Now().After(end) {
			return errors.New("not all messages came within a minute")
		}
		found, err := client.Poll(context.Background(), pollTimeout)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, message := range found.GetMsgList() {
			received(message)
			left--
		}
		client.ACK(context.Background(), found, consumer.ConsumeSuccess)
	}
	return client.Shutdown()
}
