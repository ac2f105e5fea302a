'use strict';

/*
 * node driver.js produce --namesrv A --topic T --count N [--tags a,b] [--keys-prefix K] [--body-prefix P] [--size BYTES]
 *                        [--level L] [--sharding-keys a,b]
 * node driver.js push --namesrv A --topic T --group G [--sub "a || b"] [--model clustering|broadcasting]
 *                     [--fail TIMES]
 *
 * One JSON object per line on standard output, as the Java driver prints them; everything else on standard error.
 * A push consumer ends when its standard input is closed or on SIGTERM.
 */

const crypto = require('crypto');
const { Consumer, Message, Producer } = require('ali-ons');

const POLL_MS = 200;
// The library's own default is to start at the end.
const FROM_FIRST = 'CONSUME_FROM_FIRST_OFFSET';
// Required, but only called where the name server is to be found through a web address.
const NO_HTTP = { request: () => Promise.reject(new Error('the driver makes no web requests')) };

// Without keys the library does not sign.
const ACCOUNT = { accessKey: process.env.INTEROP_ACCESS_KEY, secretKey: process.env.INTEROP_SECRET_KEY };

function print(event, fields) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

function parseOptions(words) {
  const options = {};
  for (let i = 0; i < words.length; i += 2) {
    options[words[i].replace(/^--/, '')] = words[i + 1];
  }
  return options;
}

function bodyFields(body) {
  const bodySha256 = crypto.createHash('sha256').update(body).digest('hex');
  return { bodyLength: body.length, bodySha256, ...(body.length <= 1024 && { body: body.toString() }) };
}

async function produce(options) {
  const producer = new Producer({
    nameSrv: options.namesrv,
    httpclient: NO_HTTP,
    ...ACCOUNT,
    producerGroup: options.group || 'interop-node-producer',
  });
  await producer.ready();
  // Without a tag the empty text: null would be sent as the word.
  const tags = (options.tags || '').split(',');
  const count = Number(options.count || 1);
  for (let index = 0; index < count; index++) {
    const text = `${options['body-prefix'] || 'message'}-${index}`.padEnd(Number(options.size || 0), '.');
    const body = Buffer.from(text);
    const message = new Message(options.topic, tags[index % tags.length], text);
    if (options['keys-prefix']) {
      message.keys = [ `${options['keys-prefix']}${index}` ];
    }
    if (options['sharding-keys']) {
      const shardingKeys = options['sharding-keys'].split(',');
      message.shardingKey = shardingKeys[index % shardingKeys.length];
    }
    if (options.level) {
      message.delayTimeLevel = Number(options.level);
    }
    const result = await producer.send(message);
    print('sent', {
      index,
      topic: options.topic,
      tags: message.tags || null,
      keys: message.keys || null,
      status: result.sendStatus,
      msgId: result.msgId,
      queueId: Number(result.messageQueue.queueId),
      queueOffset: Number(result.queueOffset),
      ...bodyFields(body),
    });
  }
  print('done', { count });
}

async function push(options) {
  const consumer = new Consumer({
    nameSrv: options.namesrv,
    httpclient: NO_HTTP,
    ...ACCOUNT,
    consumerGroup: options.group,
    isBroadcast: options.model === 'broadcasting',
    consumeFromWhere: FROM_FIRST,
    rebalanceInterval: 1000,
  });
  consumer.on('error', error => console.error(error));
  consumer.subscribe(options.topic, options.sub || '*', async message => {
    print('received', {
      topic: message.topic,
      tags: message.tags || null,
      keys: message.keys || null,
      msgId: message.msgId,
      queueId: message.queueId,
      queueOffset: Number(message.queueOffset),
      reconsumeTimes: message.reconsumeTimes,
      bornHost: message.bornHost,
      storeHost: message.storeHost,
      storeTimestamp: Number(message.storeTimestamp),
      bornTimestamp: Number(message.bornTimestamp),
      properties: message.properties,
      ...bodyFields(message.body),
    });
    // The broker chooses the delay: the library asks for level 0.
    return message.reconsumeTimes < Number(options.fail || 0) ? Consumer.ACTION_RETRY : undefined;
  });
  await consumer.ready();
  print('started', { clientId: consumer.clientId });
  watchQueues(consumer, options.topic);
  await new Promise(resolve => {
    process.on('SIGTERM', resolve);
    process.stdin.on('end', resolve).resume();
  });
  await consumer.close();
  print('done', {});
}

function watchQueues(consumer, topic) {
  let before;
  setInterval(() => {
    const queues = [ ...consumer.processQueueTable.values() ]
      .filter(item => item && item.messageQueue.topic === topic)
      .map(item => item.messageQueue.queueId)
      .sort((a, b) => a - b);
    if (JSON.stringify(queues) !== before) {
      before = JSON.stringify(queues);
      print('assigned', { topic, queues });
    }
  }, POLL_MS).unref();
}

const commands = { produce, push };
const [ command, ...words ] = process.argv.slice(2);
if (!(command in commands)) {
  console.error(`usage: driver.js ${Object.keys(commands).join('|')} --namesrv HOST:PORT --topic T ...`);
  process.exit(2);
}
commands[command](parseOptions(words)).then(
  () => process.exit(0),
  error => {
    console.error(error);
    process.exit(1);
  }
);
