package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const sendTimeout = 10 * time.Second

// produce sends --count messages in one of the client's ways and prints what became of each.
func produce(o options) error {
	mode := o.text("mode", "sync")
	selector := producer.NewRoundRobinQueueSelector()
	switch mode {
	case "queue":
		selector = chosenQueue(o.number("queue", 0))
	case "ordered":
		selector = producer.NewHashQueueSelector()
	}
	client, err := rocketmq.NewProducer(
		producer.WithNameServer(o.nameServers()), producer.WithCredentials(credentials()),
		producer.WithGroupName(o.text("group", "interop-go-producer")),
		producer.WithQueueSelector(selector),
		producer.WithSendMsgTimeout(sendTimeout),
	)
	if err != nil {
		return err
	}
	if err = client.Start(); err != nil {
		return err
	}
	defer client.Shutdown()
	bad := 0
	messages := messagesOf(o)
	switch mode {
	case "async":
		bad = sendAsync(client, messages)
	case "batch":
		bad = sendBatches(client, messages, o.number("batch", 10))
	default:
		bad = sendEach(client, messages, mode)
	}
	if bad > 0 {
		return fmt.Errorf("%d messages were not sent", bad)
	}
	return nil
}

// chosenQueue sends everything to the queue of that number.
type chosenQueue int

func (number chosenQueue) Select(
	_ *primitive.Message, queues []*primitive.MessageQueue, _ string,
) *primitive.MessageQueue {
	for _, queue := range queues {
		if queue.QueueId == int(number) {
			return queue
		}
	}
	return nil
}

func messagesOf(o options) []*primitive.Message {
	messages := make([]*primitive.Message, o.number("count", 1))
	tags := strings.Split(o.text("tags", ""), ",")
	for i := range messages {
		body := fmt.Sprintf("%s-%d", o.text("body-prefix", "message"), i)
		if missing := o.number("size", 0) - len(body); missing > 0 {
			body += strings.Repeat(".", missing)
		}
		message := primitive.NewMessage(o["topic"], []byte(body))
		message.WithTag(tags[i%len(tags)])
		if prefix := o["keys-prefix"]; prefix != "" {
			message.WithKeys([]string{prefix + strconv.Itoa(i)})
		}
		if level := o.number("level", 0); level > 0 {
			message.WithDelayTimeLevel(level)
		}
		if name, value, found := strings.Cut(o["property"], "="); found {
			message.WithProperty(name, value)
		}
		if o["mode"] == "ordered" {
			message.WithShardingKey("key-" + strconv.Itoa(i%3))
		}
		messages[i] = message
	}
	return messages
}

func sendEach(client rocketmq.Producer, messages []*primitive.Message, mode string) int {
	bad := 0
	for i, message := range messages {
		var result *primitive.SendResult
		var err error
		if mode == "oneway" {
			err = client.SendOneWay(context.Background(), message)
		} else {
			result, err = client.SendSync(context.Background(), message)
		}
		bad += printed(i, message, result, err)
	}
	return bad
}

func sendAsync(client rocketmq.Producer, messages []*primitive.Message) int {
	var open sync.WaitGroup
	var counting sync.Mutex
	bad := 0
	for i, message := range messages {
		open.Add(1)
		index, asked := i, message
		err := client.SendAsync(context.Background(),
			func(_ context.Context, result *primitive.SendResult, err error) {
				counting.Lock()
				bad += printed(index, asked, result, err)
				counting.Unlock()
				open.Done()
			}, message)
		if err != nil {
			failed(i, err)
			open.Done()
			bad++
		}
	}
	open.Wait()
	return bad
}

func sendBatches(client rocketmq.Producer, messages []*primitive.Message, size int) int {
	bad := 0
	for from := 0; from < len(messages); from += size {
		batch := messages[from:]
		if len(batch) > size {
			batch = batch[:size]
		}
		result, err := client.SendSync(context.Background(), batch...)
		for i, message := range batch {
			one := result
			if err == nil {
				copied := *result
				copied.QueueOffset += int64(i)
				copied.MsgID = ""
				one = &copied
			}
			bad += printed(from+i, message, one, err)
		}
	}
	return bad
}

// printed tells of one message and returns how many failed: 0 or 1. A oneway message has no result.
func printed(index int, message *primitive.Message, result *primitive.SendResult, err error) int {
	if err == nil && result != nil && result.Status != primitive.SendOK {
		err = errors.New("status " + strconv.Itoa(int(result.Status)))
	}
	if err != nil {
		failed(index, err)
		return 1
	}
	line := addBody(fields{
		"index": index,
		"topic": message.Topic,
		"tags":  textOrNull(message.GetTags()),
		"keys":  textOrNull(strings.TrimSpace(message.GetKeys())),
		"msgId": nil,
	}, message.Body)
	if result != nil {
		line["msgId"], line["offsetMsgId"] = textOrNull(result.MsgID), result.OffsetMsgID
		line["queueId"], line["queueOffset"] = result.MessageQueue.QueueId, result.QueueOffset
	}
	emit("sent", line)
	return 0
}
