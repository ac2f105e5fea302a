'use strict';

/*
 * Checks rocketmq-client-nodejs at a gRPC endpoint: node checks.js HOST:PORT PREFIX
 *
 * Topics and groups are named PREFIX and the words of README.md. One JSON line per check on standard output.
 */

const assert = require('assert').strict;
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [ endpoints, prefix ] = process.argv.slice(2);
const AWAIT_MS = 5000;
const INVISIBLE_MS = 10000;
const LIMIT_MS = 25000;
const silent = () => {};
const options = { endpoints, namespace: '', logger: { debug: silent, info: silent, warn: silent, error: silent } };

const asked = [];
const pushed = [];
const ordered = [];
const clients = {};
let due;
let lastNormal;

function print(fields) {
  process.stdout.write(`${JSON.stringify(fields)}\n`);
}

async function check(name, run) {
  const start = Date.now();
  const line = { event: 'check', check: name, ok: true };
  try {
    Object.assign(line, await run());
  } catch (error) {
    Object.assign(line, { ok: false, error: `${error.name}: ${error.message}` });
  }
  print({ ...line, seconds: (Date.now() - start) / 1000 });
}

/* A check that an action fails; code is null where the SDK itself refuses. */
function refused(name, action) {
  return check(name, async () => {
    let result;
    try {
      result = await action();
    } catch (error) {
      return { code: typeof error.code === 'number' ? error.code : null, message: error.message };
    }
    throw new Error(`not refused: ${JSON.stringify(result)}`);
  });
}

function sleep(ms) {
  return new Promise(resolve => setTimeout(resolve, ms));
}

async function until(condition, shown) {
  const end = Date.now() + LIMIT_MS;
  while (!condition()) {
    if (Date.now() > end) {
      throw new Error(`after ${LIMIT_MS} ms: ${JSON.stringify(shown)}`);
    }
    await sleep(100);
  }
}

function send(topic, body, more = {}, transaction = undefined) {
  return clients.producer.send({ topic, body: Buffer.from(body), ...more }, transaction);
}

function bodies(found) {
  return found.map(each => each.body.toString());
}

/* Receives until there are `count` messages, and acknowledges them. */
async function gather(consumer, count, { ack = true, invisible = INVISIBLE_MS } = {}) {
  const found = [];
  const end = Date.now() + LIMIT_MS;
  while (found.length < count && Date.now() < end) {
    for (const each of await consumer.receive(16, invisible)) {
      found.push(each);
      if (ack) {
        await consumer.ack(each);
      }
    }
  }
  return found;
}

async function simple(topic, group, expression = FilterExpression.SUB_ALL) {
  const consumer = new SimpleConsumer({
    ...options,
    consumerGroup: prefix + group,
    subscriptions: new Map([[ topic, expression ]]),
    awaitDuration: AWAIT_MS,
  });
  await consumer.startup();
  return consumer;
}

/* Starts a push consumer that fails "again" the first time and "dead" always. */
async function push(topic, seen) {
  const consume = message => {
    const body = message.body.toString();
    const first = !seen.some(([ each ]) => each === body);
    seen.push([ body, message.deliveryAttempt ]);
    const failing = body === 'dead' || (body === 'again' && first);
    return failing ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  };
  const consumer = new PushConsumer({
    ...options,
    consumerGroup: prefix + topic.toLowerCase(),
    subscriptions: new Map([[ prefix + topic, FilterExpression.SUB_ALL ]]),
    messageListener: { consume },
  });
  await consumer.startup();
}

async function start() {
  const checker = {
    async check(message) {
      const body = message.body.toString();
      asked.push(body);
      return body.includes('rollback') ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
    },
  };
  // One topic: with several, the SDK waits for ever at RocketMQ's proxy if settings arrive before the last route.
  clients.producer = new Producer({ ...options, topics: [ `${prefix}Transaction` ], checker });
  await clients.producer.startup();
  for (const type of [ 'Normal', 'Fifo', 'Delay', 'Transaction' ]) {
    clients[type.toLowerCase()] = await simple(prefix + type, type.toLowerCase());
  }
  clients.tag = await simple(`${prefix}Filter`, 'tag', new FilterExpression('A || C'));
  clients.sql = await simple(`${prefix}Filter`, 'sql', new FilterExpression('number > 1', FilterType.SQL));
  await push('Push', pushed);
  await push('Ordered', ordered);
}

/* Sends what takes its time to arrive. */
async function sendEarly() {
  for (const body of [ 'one', 'two', 'again', 'dead', 'three' ]) {
    await send(`${prefix}Push`, body);
  }
  for (const body of [ 'one', 'dead', 'two', 'again', 'three' ]) {
    await send(`${prefix}Ordered`, body, { messageGroup: 'g' });
  }
  for (const outcome of [ 'commit', 'rollback', 'ask commit', 'ask rollback' ]) {
    const transaction = clients.producer.beginTransaction();
    await send(`${prefix}Transaction`, outcome, {}, transaction);
    if (!outcome.startsWith('ask')) {
      await transaction[outcome]();
    }
  }
  due = Date.now() + 4000;
  await send(`${prefix}Delay`, 'delayed', { deliveryTimestamp: new Date(due) });
}

/* Recalls a message that would arrive with that of checkDelay. */
async function checkRecall() {
  const receipt = await send(`${prefix}Delay`, 'recalled', { deliveryTimestamp: new Date(due) });
  const recalled = await clients.producer.recallMessage(`${prefix}Delay`, receipt.recallHandle);
  assert.equal(recalled.messageId, receipt.messageId);
}

async function checkDelay() {
  const found = await gather(clients.delay, 1);
  assert.ok(Date.now() >= due, 'early');
  assert.deepEqual(bodies(found), [ 'delayed' ]);
}

async function checkNormal() {
  const sent = [];
  for (let number = 0; number < 3; number++) {
    const more = { tag: 'A', keys: [ `k${number}`, 'common' ], properties: new Map([[ 'number', `${number}` ]]) };
    const { messageId } = await send(`${prefix}Normal`, `body ${number}`, more);
    sent.push({ body: `body ${number}`, messageId, topic: `${prefix}Normal`, tag: 'A', keys: more.keys,
      number: `${number}`, attempt: 1, corrupted: false });
  }
  const found = await gather(clients.normal, 3);
  const seen = found.map(each => ({ body: each.body.toString(), messageId: each.messageId, topic: each.topic,
    tag: each.tag, keys: each.keys, number: each.properties.get('number'), attempt: each.deliveryAttempt,
    corrupted: Boolean(each.corrupted) }));
  assert.deepEqual(seen.sort((a, b) => (a.body < b.body ? -1 : 1)), sent);
  return { ids: sent.map(each => each.messageId) };
}

async function checkInvisible() {
  await send(`${prefix}Normal`, 'later');
  const first = await gather(clients.normal, 1, { ack: false, invisible: 60000 });
  assert.deepEqual(bodies(first), [ 'later' ]);
  await clients.normal.changeInvisibleDuration(first[0], 1000);
  const second = await gather(clients.normal, 1);
  assert.deepEqual(bodies(second), [ 'later' ]);
  assert.deepEqual([ second[0].deliveryAttempt, second[0].messageId ], [ 2, first[0].messageId ]);
  lastNormal = Date.now();
}

async function checkFifo() {
  const sent = [ 'a0', 'b0', 'a1', 'b1', 'a2', 'b2', 'a3', 'b3' ];
  for (const body of sent) {
    await send(`${prefix}Fifo`, body, { messageGroup: body[0] });
  }
  const found = await gather(clients.fifo, sent.length);
  for (const group of 'ab') {
    assert.deepEqual(bodies(found).filter(body => body[0] === group), sent.filter(body => body[0] === group));
  }
  assert.ok(found.every(each => each.messageGroup === each.body.toString()[0]));
}

async function checkTag() {
  for (const [ number, tag ] of [ ...'ABCD' ].entries()) {
    await send(`${prefix}Filter`, tag, { tag, properties: new Map([[ 'number', `${number}` ]]) });
  }
  assert.deepEqual(bodies(await gather(clients.tag, 2)).sort(), [ 'A', 'C' ]);
}

async function checkSql() {
  assert.deepEqual(bodies(await gather(clients.sql, 2)).sort(), [ 'C', 'D' ]);
}

async function checkTransaction() {
  assert.deepEqual(bodies(await gather(clients.transaction, 2)).sort(), [ 'ask commit', 'commit' ]);
  await until(() => asked.includes('ask rollback'), asked);
  assert.deepEqual([ ...new Set(asked) ].sort(), [ 'ask commit', 'ask rollback' ]);
  return { asked };
}

async function checkPush() {
  const wanted = [ 'again 1', 'again 2', 'dead 1', 'dead 2', 'one 1', 'three 1', 'two 1' ];
  await until(() => pushed.length >= wanted.length, pushed);
  assert.deepEqual(pushed.map(each => each.join(' ')).sort(), wanted);
}

async function checkOrdered() {
  await until(() => ordered.some(([ body ]) => body === 'three'), ordered);
  assert.deepEqual([ ...new Set(ordered.map(([ body ]) => body)) ], [ 'one', 'dead', 'two', 'again', 'three' ]);
  return { seen: ordered };
}

async function checkDead(group, dead = [ 'dead' ]) {
  const consumer = await simple(`%DLQ%${prefix}${group}`, `${group}-dead`);
  assert.deepEqual(bodies(await gather(consumer, dead.length)), dead);
}

/* What was acknowledged, recalled or rolled back does not arrive, after the invisible time either. */
async function checkNothingMore() {
  await until(() => Date.now() > lastNormal + INVISIBLE_MS + 2000, 'the clock');
  const consumers = [ 'normal', 'delay', 'transaction', 'tag', 'sql', 'fifo' ].map(name => clients[name]);
  const found = await Promise.all(consumers.map(each => each.receive(16, INVISIBLE_MS)));
  assert.deepEqual(found.map(bodies), consumers.map(() => []));
}

async function main() {
  await start();
  await sendEarly();
  await check('recall', checkRecall);
  await check('delay', checkDelay);
  await check('normal', checkNormal);
  await check('invisible', checkInvisible);
  await check('fifo', checkFifo);
  await check('tag', checkTag);
  await check('sql92', checkSql);
  await refused('unknown_topic', () => send(`${prefix}Unknown`, 'x'));
  await refused('wrong_type', () => send(`${prefix}Normal`, 'x', { messageGroup: 'g' }));
  await refused('illegal_name', () => send('bad topic!', 'x'));
  await refused('system_topic', () => send('RMQ_SYS_TRANS_HALF_TOPIC', 'x'));
  await check('transaction', checkTransaction);
  await check('push', checkPush);
  await check('ordered', checkOrdered);
  await check('dead_letters', () => checkDead('push'));
  // The SDK does not know the retry policy of such a group, and gives up after one attempt.
  await check('ordered_dead_letters', () => checkDead('ordered', [ 'dead', 'again' ]));
  await check('nothing_more', checkNothingMore);
  print({ event: 'done' });
  process.exit(0); // without waiting for the end of open receives
}

main().catch(error => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
