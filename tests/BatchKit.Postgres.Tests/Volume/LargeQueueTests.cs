using System.Diagnostics;
using System.Globalization;
using BatchKit.TestServers.Postgres;

namespace BatchKit.Postgres.Tests.Volume;

/// <summary>A queue of millions of rows, and one that many messages go through. They take minutes, and measure, so they run where environment variables say how large they are.</summary>
[Trait("Lane", "faults: a large queue takes minutes")]
public sealed class LargeQueueTests(ITestOutputHelper log)
{
    /// <summary>How many rows are drained; 10,000,000 is the figure asked for.</summary>
    private const string RowsVariable = "BATCHKIT_TEST_QUEUE_ROWS";

    /// <summary>How many minutes at 1,000 tasks a second are simulated; a day has 1,440.</summary>
    private const string MinutesVariable = "BATCHKIT_TEST_QUEUE_MINUTES";

    private const string Queue = "tasks";
    private const int Parts = 20;

    // Autovacuum wakes each minute by default. Here it wakes every 2 s while 30 times as much goes through, so that it finds as many dead rows each time.
    private const int Speed = 30;
    private const int TasksPerSecond = 1000;
    private const int TasksPerScope = 500;
    private const string Naptime = "autovacuum_naptime = 2s";

    private static readonly TimeSpan StallLimit = TimeSpan.FromMinutes(2);

    [Fact]
    public async Task The_last_rows_are_claimed_as_fast_as_the_first()
    {
        var rows = Read(RowsVariable);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var schema = await CreateAsync(server);
        await FillAsync(schema, rows);
        var handler = new TimedHandler(rows, Parts);

        await using (var receiver = await ReceiveAsync(schema, handler))
            await handler.WaitAsync(StallLimit);

        var rates = handler.Rates;
        log.WriteLine($"{rows:N0} rows: {string.Join(' ', rates.Select(rate => string.Create(CultureInfo.InvariantCulture, $"{rate / 1000:0}")))} thousand/s, by twentieths");
        // The first and the last tenth.
        var (first, last) = ((rates[0] + rates[1]) / 2, (rates[^1] + rates[^2]) / 2);
        Assert.True(last >= 0.8 * first, $"{first:N0}/s at the start, {last:N0}/s at the end.");
        // A vacuum or a checkpoint may fall into a part; a plan that the server compiles each time divides it by twelve.
        Assert.True(rates.Min() >= 0.4 * first, $"{first:N0}/s at the start, {rates.Min():N0}/s in between.");
    }

    [Fact]
    public async Task The_tables_stop_growing_at_a_thousand_tasks_a_second()
    {
        var minutes = Read(MinutesVariable);
        await using var server = await PostgresServer.StartOwnAsync(new PostgresServerOptions { Lines = [Naptime] });
        await using var schema = await CreateAsync(server);
        var tasks = minutes * 60 * TasksPerSecond;
        var handler = new TimedHandler(tasks, Parts);
        var sizes = new List<long>();

        await using (var receiver = await ReceiveAsync(schema, handler))
        {
            var writing = WriteAsync(schema, tasks);
            for (var part = 1; part <= Parts; part++)
            {
                await handler.WaitAsync(StallLimit, (long)tasks * part / Parts);
                sizes.Add(await schema.ScalarAsync<long>("""
                    select sum(pg_total_relation_size(c.oid))::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where '"' || n.nspname || '"' = '{s}' and c.relkind = 'r'
                    """));
            }

            await writing;
        }

        log.WriteLine($"{minutes} minutes at {TasksPerSecond:N0} tasks/s, {tasks:N0} tasks: {string.Join(' ', sizes.Select(size => size / 1024 / 1024))} MiB, by twentieths");
        Assert.True(sizes[(Parts / 2)..].Max() <= 1.5 * sizes[..(Parts / 2)].Max(), "The tables grew in the second half.");
    }

    private static int Read(string variable)
    {
        var text = Environment.GetEnvironmentVariable(variable);
        Assert.SkipWhen(text is null, $"It runs where {variable} says how large it is: it takes minutes.");
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        return int.Parse(text!, CultureInfo.InvariantCulture);
    }

    private static async Task<TestSchema> CreateAsync(PostgresServer server)
    {
        var schema = TestSchema.On(server);
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        await schema.ExecuteAsync($"insert into {{s}}.queues (name, shards) values ('{Queue}', 0)");
        return schema;
    }

    private static async Task FillAsync(TestSchema schema, int rows)
    {
        const int Step = 500_000;
        for (var from = 0; from < rows; from += Step)
        {
            await schema.ExecuteAsync(string.Create(CultureInfo.InvariantCulture, $$"""
                insert into {s}.messages (queue, payload) select q.id, decode(repeat('61', 100), 'hex') from {s}.queues q, generate_series(1, {{Math.Min(Step, rows - from)}})
                """));
        }
    }

    private static async Task<PostgresQueueReceiver> ReceiveAsync(TestSchema schema, TimedHandler handler)
    {
        var receiver = new PostgresQueueReceiver(schema.DataSource, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = Queue, Concurrency = 5 }, handler);
        await receiver.StartAsync(CancellationToken.None);
        return receiver;
    }

    private static async Task WriteAsync(TestSchema schema, int tasks)
    {
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        await using var output = new OutputBuffer(transport);
        var handle = OutputHandle.Named(Queue);
        var payload = new byte[100];
        var began = Stopwatch.GetTimestamp();
        for (var written = 0; written < tasks; written += TasksPerScope)
        {
            await using (output.BeginBufferingScope(handle))
            {
                for (var task = 0; task < TasksPerScope; task++)
                    output.Write(handle, payload);
            }

            var early = TimeSpan.FromSeconds((double)written / (TasksPerSecond * Speed)) - Stopwatch.GetElapsedTime(began);
            if (early > TimeSpan.Zero)
                await Task.Delay(early);
        }
    }
}

/// <summary>Counts messages, and notes when each part of them was handled.</summary>
internal sealed class TimedHandler(int messages, int parts) : IMessageHandler<QueueMessage>
{
    private readonly long[] _times = new long[parts + 1];
    private readonly Lock _lock = new();
    private long _count;

    /// <summary>How many messages a second each part was handled with.</summary>
    public double[] Rates => [.. Enumerable.Range(0, parts).Select(part => messages / parts / Stopwatch.GetElapsedTime(_times[part], _times[part + 1]).TotalSeconds)];

    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        lock (_lock)
        {
            if (_count == 0)
                _times[0] = Stopwatch.GetTimestamp();
            var before = _count * parts / messages;
            _count += batch.Count;
            for (var part = before + 1; part <= Math.Min(parts, _count * parts / messages); part++)
                _times[part] = Stopwatch.GetTimestamp();
        }

        return ValueTask.CompletedTask;
    }

    /// <summary>Waits until all were handled, or so many; each further one extends the limit.</summary>
    public async Task WaitAsync(TimeSpan limit, long? count = null)
    {
        var (last, since) = (-1L, Stopwatch.GetTimestamp());
        while (Interlocked.Read(ref _count) is var now && now < (count ?? messages))
        {
            if (now != last)
                (last, since) = (now, Stopwatch.GetTimestamp());
            if (Stopwatch.GetElapsedTime(since) > limit)
                throw new TimeoutException($"{now} of {messages} messages were handled, and then no more within {limit}.");
            await Task.Delay(TimeSpan.FromMilliseconds(100));
        }
    }
}
