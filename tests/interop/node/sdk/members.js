'use strict';

/*
 * Runs clients of rocketmq-client-nodejs until standard input is closed: node members.js HOST:PORT PREFIX
 *
 * A push consumer, a simple consumer and a producer, as README.md describes.
 */

const readline = require('readline');
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [ endpoints, prefix ] = process.argv.slice(2);
const AWAIT_MS = 20000;
const INVISIBLE_MS = 10000;
const PAUSE_MS = 200;
const TOPICS = [ 'Push', 'Normal', 'Filter', 'Delay' ];
const topic = `${prefix}Push`;
const silent = () => {};
const options = { endpoints, namespace: '', logger: { debug: silent, info: silent, warn: silent, error: silent } };

function emit(event, fields = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

function received(by, message) {
  const body = message.body.toString();
  emit('received', { by, body: body.split('.', 1)[0], size: body.length, attempt: message.deliveryAttempt });
}

async function receive(consumer) {
  for (;;) {
    try {
      for (const each of await consumer.receive(16, INVISIBLE_MS)) {
        received('simple', each);
        await consumer.ack(each);
      }
    } catch (error) {
      emit('failed', { error: `${error.name}: ${error.message}` });
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS));
    }
  }
}

async function main() {
  const subscriptions = new Map([[ topic, '*' ]]);
  const simple = new SimpleConsumer({
    ...options, consumerGroup: `${prefix}simple`, subscriptions, awaitDuration: AWAIT_MS,
  });
  await simple.startup();
  receive(simple);
  const consume = message => {
    received('push', message);
    return ConsumeResult.SUCCESS;
  };
  const push = new PushConsumer({
    ...options, consumerGroup: `${prefix}push`, subscriptions, messageListener: { consume },
  });
  await push.startup();
  // Several: the SDK counts only settings that arrive after the last route.
  const producer = new Producer({ ...options, topics: TOPICS.map(each => prefix + each) });
  await producer.startup();
  emit('started');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [ body, size ] = line.split(' ');
    try {
      const receipt = await producer.send({ topic, body: Buffer.from(body.padEnd(Number(size), '.')) });
      emit('sent', { body, id: receipt.messageId });
    } catch (error) {
      emit('unsent', { body, error: `${error.name}: ${error.message}` });
    }
  }
  process.exit(0);
}

main().catch(error => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
