'use strict';

/*
 * Checks lite topics and priorities with rocketmq-client-nodejs: node lite.js HOST:PORT PREFIX
 *
 * Topics and groups are named PREFIX and the words of README.md. One JSON line per check on standard output.
 */

const assert = require('assert').strict;
const { ConsumeResult, LitePushConsumerImpl, Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [ endpoints, prefix ] = process.argv.slice(2);
const AWAIT_MS = 5000;
const INVISIBLE_MS = 10000;
const LIMIT_MS = 25000;
const silent = () => {};
const options = { endpoints, namespace: '', logger: { debug: silent, info: silent, warn: silent, error: silent } };

const seen = { a: [], b: [], d: [] }; // by lite topic, as "body attempt"
let producer;
let consumer;

async function check(name, run) {
  const line = { event: 'check', check: name, ok: true };
  try {
    Object.assign(line, await run());
  } catch (error) {
    Object.assign(line, { ok: false, error: `${error.name}: ${error.message}` });
  }
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/* A check that an action fails; code is null where the SDK itself refuses. */
function refused(name, action) {
  return check(name, async () => {
    try {
      await action();
    } catch (error) {
      return { code: typeof error.code === 'number' ? error.code : null, message: error.message };
    }
    throw new Error('not refused');
  });
}

function send(kind, body, more = {}) {
  return producer.send({ topic: prefix + kind, body: Buffer.from(body), ...more });
}

async function expectSeen(liteTopic, expected) {
  const end = Date.now() + LIMIT_MS;
  while (seen[liteTopic].length < expected.length && Date.now() < end) {
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  assert.deepEqual(seen[liteTopic], expected);
}

async function expectReceived(topic, group, expected) {
  const simple = new SimpleConsumer({
    ...options, consumerGroup: prefix + group, subscriptions: new Map([[ topic, '*' ]]), awaitDuration: AWAIT_MS,
  });
  await simple.startup();
  const found = [];
  for (const end = Date.now() + LIMIT_MS; found.length < expected.length && Date.now() < end;) {
    for (const each of await simple.receive(16, INVISIBLE_MS)) {
      found.push(each.body.toString());
      await simple.ack(each);
    }
  }
  assert.deepEqual(found, expected);
}

async function consume(message) {
  const body = message.body.toString();
  seen[message.liteTopic].push(`${body} ${message.deliveryAttempt}`);
  return body === 'dead' ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
}

async function checkPriority() {
  for (const [ priority, body ] of [[ 1, 'low' ], [ 3, 'high' ], [ 2, 'middle' ]]) { // the SDK takes 0 for none
    await send('Priority', body, { priority });
  }
  await expectReceived(`${prefix}Priority`, 'priority', [ 'high', 'middle', 'low' ]);
}

/* Messages of two lite topics, one of them sent before its subscription. */
async function checkLite() {
  await send('Lite', 'one', { liteTopic: 'a' });
  await consumer.subscribeLite('a');
  await consumer.subscribeLite('b');
  for (const [ liteTopic, body ] of [[ 'a', 'two' ], [ 'b', 'other' ], [ 'a', 'three' ]]) {
    await send('Lite', body, { liteTopic });
  }
  await expectSeen('a', [ 'one 1', 'two 1', 'three 1' ]);
  await expectSeen('b', [ 'other 1' ]);
}

async function checkUnsubscribed() {
  await consumer.unsubscribeLite('b');
  await send('Lite', 'unseen', { liteTopic: 'b' });
  await send('Lite', 'last', { liteTopic: 'a' });
  await expectSeen('a', [ 'one 1', 'two 1', 'three 1', 'last 1' ]);
  assert.deepEqual(seen.b, [ 'other 1' ]);
}

async function main() {
  producer = new Producer({ ...options, topics: [ `${prefix}Lite` ] });
  await producer.startup();
  await check('priority', checkPriority);
  consumer = new LitePushConsumerImpl({
    ...options, consumerGroup: `${prefix}lite`, bindTopic: `${prefix}Lite`, messageListener: { consume },
  });
  await consumer.startup();
  await check('lite', checkLite);
  await check('lite_unsubscribed', checkUnsubscribed);
  await check('lite_dead_letters', async () => {
    await consumer.subscribeLite('d');
    await send('Lite', 'dead', { liteTopic: 'd' });
    await expectSeen('d', [ 'dead 1' ]); // 1.0.8 gives up at once
    await expectReceived(`%DLQ%${prefix}lite`, 'lite-dead', [ 'dead' ]);
  });
  await refused('lite_wrong_type', () => send('Lite', 'x'));
  await refused('lite_illegal_name', () => consumer.subscribeLite('bad lite!'));
  process.exit(0);
}

main().catch(error => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
