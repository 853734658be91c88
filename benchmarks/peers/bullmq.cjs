// What peers/bullmq.py runs: node bullmq.cjs <VERB> [<ARGUMENT>...]. The verbs are those of bench/drive.py.

const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const { Queue, Worker } = require("bullmq");

const CONCURRENCY = 100; // jobs at once
const CHUNK = 500; // jobs of one addBulk
const FLUSH = 5; // milliseconds after which the suite can see a run
const ROOM = 4096; // runs between two flushes

const FOLDER = process.env.BENCH_FOLDER;
const NAME = "jobs";
const OPTIONS = { removeOnComplete: true, removeOnFail: true };
const connection = { path: (process.env.BENCH_URL ?? "").replace("unix://", ""), maxRetriesPerRequest: null };

let queue;
const bull = () => (queue ??= new Queue(NAME, { connection }));

// The format of bench/record.py. Node maps no files, and a write for each run would slow the worker down. So runs are
// kept in memory, with the instants at which they ran, and a timer appends them to the file. There is none while the
// worker is idle.
const cells = new BigInt64Array(2 * ROOM);
let used = 0;
let file;

function ran(number) {
  if (used === 0) setTimeout(flush, FLUSH);
  cells[used++] = BigInt(number) + 1n;
  cells[used++] = process.hrtime.bigint(); // CLOCK_MONOTONIC
  if (used === cells.length) flush();
}

function flush() {
  file ??= fs.openSync(path.join(FOLDER, `${process.pid}.runs`), "a");
  fs.writeSync(file, new Uint8Array(cells.buffer, 0, used * cells.BYTES_PER_ELEMENT));
  used = 0;
}

async function work() {
  process.on("exit", flush);
  process.on("SIGTERM", () => process.exit());
  new Worker(NAME, async (job) => ran(job.data), { connection, concurrency: CONCURRENCY });
  await new Promise(() => {});
}

const add = (number) => bull().add("job", number, OPTIONS);

async function addMany(jobs) {
  for (let at = 0; at < jobs.length; at += CHUNK) await bull().addBulk(jobs.slice(at, at + CHUNK));
}

/** Seconds for `count` jobs, after a first one, which opens the connection. */
async function timed(first, count, enqueue) {
  await add(Number(first));
  const numbers = Array.from({ length: count - 1 }, (_, index) => Number(first) + 1 + index);
  const began = performance.now();
  await enqueue(numbers);
  return (((performance.now() - began) / 1000) * count) / (count - 1);
}

const enqueue = (first, count) =>
  timed(first, count, async (numbers) => {
    for (const number of numbers) await add(number);
  });

const enqueue_many = (first, count) =>
  timed(first, count, (numbers) => addMany(numbers.map((number) => ({ name: "job", data: number, opts: OPTIONS }))));

/** Set jobs at the instants of a file: pairs of number and epoch seconds. */
async function schedule(file) {
  const jobs = JSON.parse(fs.readFileSync(file, "utf8"));
  // It takes whole milliseconds: the next one, or it would be early.
  const options = (now, moment) => ({ ...OPTIONS, timestamp: now, delay: Math.ceil(moment * 1000) - now });
  await addMany(jobs.map(([number, moment]) => ({ name: "job", data: number, opts: options(Date.now(), moment) })));
  return jobs.length;
}

/** The same steps as `wakeups` in bench/drive.py. */
async function wakeups(count) {
  const began = [];
  for (let number = 0; number < count; number++) {
    await sleep(10 + 20 * Math.random());
    began.push(process.hrtime.bigint());
    await add(number);
    await sleep(5);
    while (runs().length <= 2 * number) await sleep(2);
  }
  const started = runs();
  return began.map((moment, number) => Number(started[2 * number + 1] - moment) / 1e6);
}

/** The cells of the one worker, whose jobs come one after the other. */
function runs() {
  const name = fs.readdirSync(FOLDER).find((each) => each.endsWith(".runs"));
  return name ? new BigInt64Array(new Uint8Array(fs.readFileSync(path.join(FOLDER, name))).buffer) : [];
}

const describe = () => ({
  abilities: Object.keys(VERBS),
  versions: {
    bullmq: require("bullmq/package.json").version,
    ioredis: require("ioredis/package.json").version,
    node: process.versions.node,
  },
  settings: `1 process, concurrency ${CONCURRENCY}, removeOnComplete, removeOnFail`,
  jobs: 100_000,
});

const VERBS = { describe, enqueue, enqueue_many, schedule, wakeups, work };

async function main(verb, ...words) {
  console.log(JSON.stringify(await VERBS[verb](...words)));
  process.exit(); // open connections would keep it running
}

main(...process.argv.slice(2));
