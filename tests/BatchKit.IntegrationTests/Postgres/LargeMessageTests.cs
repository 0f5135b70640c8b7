using System.Collections.Concurrent;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Payloads of a megabyte, from end to end.</summary>
[Trait("Lane", "night: messages of many megabytes")]
public sealed class LargeMessageTests(PostgresFixture fixture) : IMessageHandler<QueueMessage>
{
    private const int Messages = 20;
    private const int Bytes = 1_000_000;
    private const int BatchSize = 10;
    private const int MaxBatchBytes = 3_500_000;

    private readonly ConcurrentDictionary<int, bool> _arrivedWhole = [];
    private long _largestBatch;

    [Theory]
    [InlineData(0, 0)]
    [InlineData(0, BatchSize)]
    [InlineData(4, 0)]
    public async Task Payloads_of_a_megabyte_arrive_whole_after_a_failure_too(int shards, int prefetch)
    {
        await using var schema = await fixture.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = shards });
        await using (var output = new OutputBuffer(transport))
        {
            for (var number = 0; number < Messages; number++)
                await output.WriteAsync(OutputHandle.Named("large"), Payload(number), new MessageHeader { Key = $"{number % 5}" });
            await output.FlushAsync().WithinDeadline();
        }

        await using var receiver = new PostgresQueueReceiver(schema.DataSource, Options(schema, shards, prefetch), this);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages >= Messages);
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();

        Assert.Equal(Messages, _arrivedWhole.Count);
        Assert.All(_arrivedWhole, message => Assert.True(message.Value, $"{message.Key} was changed."));
        Assert.InRange(_largestBatch, Bytes, MaxBatchBytes);
        Assert.Equal(0, await schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.claims) + (select count(*) from {s}.dead)"));
    }

    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        InterlockedMax(batch.Sum(message => (long)message.Payload.Length));
        foreach (var message in batch)
        {
            var number = BitConverter.ToInt32(message.Payload.Span);
            if (message.Attempt == 1)
                message.Retry("It fails at first.", TimeSpan.Zero);
            else
                _arrivedWhole[number] = message.Payload.Span.SequenceEqual(Payload(number));
        }

        return ValueTask.CompletedTask;
    }

    private static PostgresQueueReceiverOptions Options(TestSchema schema, int shards, int prefetch) => new()
    {
        Schema = schema.Name,
        Queue = "large",
        Shards = shards,
        Prefetch = prefetch,
        Concurrency = 2,
        BatchSize = BatchSize,
        MaxBatchBytes = MaxBatchBytes,
    };

    private static byte[] Payload(int number)
    {
        var payload = Some.RandomBytes(Bytes, number);
        BitConverter.TryWriteBytes(payload, number);
        return payload;
    }

    private void InterlockedMax(long bytes)
    {
        for (var largest = Interlocked.Read(ref _largestBatch); bytes > largest; largest = Interlocked.Read(ref _largestBatch))
            Interlocked.CompareExchange(ref _largestBatch, bytes, largest);
    }
}
