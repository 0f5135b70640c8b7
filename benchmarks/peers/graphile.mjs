// graphile-worker with its batching on: takes "drain jobs workers" on standard input, answers how many jobs ran once, how often any ran, and the nanoseconds.
import { createInterface } from "node:readline";
import { Logger, run, runMigrations } from "graphile-worker";
import pg from "pg";

const connectionString = process.argv[2];
const pool = new pg.Pool({ connectionString, max: 1 });
const logger = new Logger(() => () => {});

async function drain(jobs, workers) {
  const times = new Uint8Array(jobs);
  let handled = 0;
  let began = 0n;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const task = async (payload) => {
    // Its start is not counted, only its work.
    if (began === 0n) began = process.hrtime.bigint();
    times[payload.index]++;
    if (++handled === jobs) finish();
  };
  const runner = await run({
    preset: {
      worker: {
        connectionString,
        concurrentJobs: workers,
        maxPoolSize: workers + 2,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    logger,
    noHandleSignals: true,
    taskList: { task },
  });
  await finished;
  while ((await pool.query("select exists (select from graphile_worker._private_jobs)")).rows[0].exists);
  const nanoseconds = process.hrtime.bigint() - began;
  await runner.stop();
  return [times.filter((count) => count === 1).length, handled, nanoseconds];
}

await runMigrations({ connectionString, logger });
await pool.query("select graphile_worker.add_job('task', '{}')");
await pool.query("delete from graphile_worker._private_jobs");
console.log("0");
for await (const line of createInterface({ input: process.stdin })) {
  const [, jobs, workers] = line.split(" ");
  console.log((await drain(Number(jobs), Number(workers))).join(" "));
}
await pool.end();
