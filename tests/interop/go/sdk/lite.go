package main

import (
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

const hidden = 10 * time.Second

// lite checks lite topics and priorities: see README.md.
func (p *program) lite() error {
	var err error
	p.producer, err = rmq.NewProducer(p.config(""), rmq.WithTopics(p.prefix+"Lite", p.prefix+"Priority"))
	if err == nil {
		err = p.producer.Start()
	}
	if err != nil {
		return err
	}
	check("priority", p.checkPriority)
	seen := map[string]*attempts{"a": {}, "b": {}, "c": {}, "d": {}}
	consumer, err := p.liteConsumer(seen)
	if err != nil {
		return err
	}
	check("lite", func() (fields, error) { return nil, p.checkLite(consumer, seen) })
	check("lite_again", func() (fields, error) {
		return nil, p.checkAttempts(consumer, seen["c"], "c", "again", []string{"again 1", "again 2"})
	})
	check("lite_unsubscribed", func() (fields, error) { return nil, p.checkUnsubscribed(consumer, seen) })
	check("lite_dead_letters", func() (fields, error) {
		if err := p.checkAttempts(consumer, seen["d"], "d", "dead", []string{"dead 1", "dead 2"}); err != nil {
			return nil, err
		}
		return p.checkDead("lite")
	})
	refused("lite_wrong_type", func() error { return p.send(p.message("Lite", "x")) })
	refused("lite_illegal_name", func() error { return consumer.SubscribeLite("bad lite!") })
	emit(fields{"event": "done"})
	return nil
}

func (p *program) liteConsumer(seen map[string]*attempts) (rmq.LitePushConsumer, error) {
	consume := func(view *rmq.MessageView) rmq.ConsumerResult {
		body := string(view.GetBody())
		first := seen[view.GetLiteTopic()].add(body, view.GetDeliveryAttempt())
		if body == "dead" || body == "again" && first {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	consumer, err := rmq.NewLitePushConsumer(p.config(p.prefix+"lite"), rmq.NewLitePushConsumerConfig(p.prefix+"Lite", hidden),
		rmq.WithPushAwaitDuration(await), rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	if err == nil {
		err = consumer.Start()
	}
	return consumer, err
}

func (p *program) sendLite(liteTopic, body string) error {
	message := p.message("Lite", body)
	message.SetLiteTopic(liteTopic)
	return p.send(message)
}

// checkPriority receives low, high and middle in order of priority.
func (p *program) checkPriority() (fields, error) {
	for priority, body := range map[int32]string{0: "low", 3: "high", 1: "middle"} {
		message := p.message("Priority", body)
		if err := message.SetPriority(priority); err != nil {
			return nil, err
		}
		if err := p.send(message); err != nil {
			return nil, err
		}
	}
	consumer, err := p.simple(p.prefix+"Priority", "priority", rmq.SUB_ALL)
	if err != nil {
		return nil, err
	}
	found, err := gather(consumer, 3)
	if err == nil {
		err = equal(bodies(found), []string{"high", "middle", "low"})
	}
	return nil, err
}

// checkLite receives the messages of two lite topics, one of them sent before its subscription, in their orders.
func (p *program) checkLite(consumer rmq.LitePushConsumer, seen map[string]*attempts) error {
	if err := p.sendLite("a", "one"); err != nil {
		return err
	}
	for _, liteTopic := range []string{"a", "b"} {
		if err := consumer.SubscribeLite(liteTopic); err != nil {
			return err
		}
	}
	for _, sent := range [][]string{{"a", "two"}, {"b", "other"}, {"a", "three"}} {
		if err := p.sendLite(sent[0], sent[1]); err != nil {
			return err
		}
	}
	if err := p.seen(seen["a"], []string{"one 1", "two 1", "three 1"}); err != nil {
		return err
	}
	return p.seen(seen["b"], []string{"other 1"})
}

// checkAttempts subscribes to a lite topic, sends one message to it and waits for its attempts.
func (p *program) checkAttempts(consumer rmq.LitePushConsumer, seen *attempts, liteTopic, body string, expected []string) error {
	if err := consumer.SubscribeLite(liteTopic); err != nil {
		return err
	}
	if err := p.sendLite(liteTopic, body); err != nil {
		return err
	}
	return p.seen(seen, expected)
}

// checkUnsubscribed receives nothing of a lite topic after its unsubscription.
func (p *program) checkUnsubscribed(consumer rmq.LitePushConsumer, seen map[string]*attempts) error {
	if err := consumer.UnSubscribeLite("b"); err != nil {
		return err
	}
	for _, sent := range [][]string{{"b", "unseen"}, {"a", "last"}} {
		if err := p.sendLite(sent[0], sent[1]); err != nil {
			return err
		}
	}
	if err := p.seen(seen["a"], []string{"one 1", "two 1", "three 1", "last 1"}); err != nil {
		return err
	}
	return p.seen(seen["b"], []string{"other 1"})
}

func (p *program) seen(attempts *attempts, expected []string) error {
	enough := func() bool { return len(attempts.all()) >= len(expected) }
	if err := until(enough, func() interface{} { return attempts.all() }); err != nil {
		return err
	}
	return equal(attempts.all(), expected)
}
