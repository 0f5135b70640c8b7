using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What holds when the disk of the tables is full.</summary>
[Trait("Lane", "faults: a disk is full")]
public sealed class PostgresDiskTests(OwnPostgresFixture fixture) : IClassFixture<OwnPostgresFixture>
{
    private const int DiskBytes = 32 * 1024 * 1024;
    private const int FillerRows = 20_000;
    private const int Messages = 30;
    private const int MessageBytes = 100_000;
    private const string DiskFull = PostgresErrorCodes.DiskFull;

    private static readonly OutputHandle Room = OutputHandle.Named("room");

    [Fact]
    public async Task A_full_disk_is_named_and_loses_nothing()
    {
        var server = await fixture.GetAsync();
        await using var disk = await SmallDisk.MountAsync(DiskBytes);
        Assert.SkipWhen(disk.WhyMissing is not null, disk.WhyMissing ?? "");
        await using var schema = TestSchema.On(server);
        await MoveTablesAsync(schema, disk);
        await using var way = await QueueWay.StartAsync(server, schema.Name, receiving => (receiving.Concurrency, receiving.BatchSize) = (1, 1));
        var gate = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        way.Handled.Gate = gate.Task;
        await way.WriteAsync(Messages, MessageBytes);

        await FillAsync(schema);
        var written = way.WriteAsync(Messages, MessageBytes);
        await way.WaitForFailedSendAsync();
        gate.SetResult();
        await way.WaitForFaultAsync(DiskFull);
        await schema.ExecuteAsync("drop table {s}.filler");

        await written.WithinDeadline();
        await way.AssertNothingLostOrStoredTwiceAsync();
        await way.WaitUntilReceivingAsync();
    }

    [Fact]
    public async Task An_outbox_on_a_full_disk_names_it_and_loses_nothing()
    {
        var server = await fixture.GetAsync();
        await using var disk = await SmallDisk.MountAsync(DiskBytes);
        Assert.SkipWhen(disk.WhyMissing is not null, disk.WhyMissing ?? "");
        await using var way = OutboxWay.On(TestSchema.On(server));
        await MoveTablesAsync(way.Schema, disk);
        await using var output = new OutputBuffer(way.Outbox, new OutputBufferOptions { MaxRetryDelay = TimeSpan.FromMilliseconds(200) });
        var stalled = way.Inner.Stall();
        await way.StartAsync();
        await WriteAsync(output, Messages, start: 0);
        await stalled.EnteredAsync();

        await FillAsync(way.Schema);
        var written = WriteAsync(output, Messages, start: Messages);
        await Until.TrueAsync(() => output.GetHealth().Reasons.Any(reason => reason.Contains(DiskFull, StringComparison.Ordinal)));
        var enqueued = await Assert.ThrowsAsync<PostgresException>(() => way.Outbox.EnqueueAsync(Room, [MessageOf(0)]));
        stalled.Release();
        await way.WaitForAsync(Messages);
        await way.Schema.ExecuteAsync("drop table {s}.filler");

        await written.WithinDeadline();
        await way.WaitForAsync(2 * Messages);
        Assert.Equal(DiskFull, enqueued.SqlState);
        Assert.Equal(Enumerable.Range(0, 2 * Messages), way.Arrived.MessagesFor(Room).Select(message => (int)message.Payload[0]));
        Assert.Null(way.Outbox.Fault);
    }

    // The first byte of a message is its number.
    private static async Task WriteAsync(OutputBuffer output, int count, int start)
    {
        for (var number = start; number < start + count; number++)
            await output.WriteAsync(Room, MessageOf(number).Payload);
        await output.FlushAsync();
    }

    private static BatchMessage MessageOf(int number)
    {
        var payload = Some.RandomBytes(MessageBytes, number);
        payload[0] = (byte)number;
        return new BatchMessage(payload);
    }

    private static async Task MoveTablesAsync(TestSchema schema, SmallDisk disk)
    {
        var space = Some.Name("small");
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        await schema.ExecuteAsync($"create tablespace \"{space}\" location '{disk.Path}'");
        await schema.ExecuteAsync($"""
            alter table {schema.Quoted}.messages set tablespace "{space}";
            alter table {schema.Quoted}.claims set tablespace "{space}";
            create table {schema.Quoted}.filler (filling text) tablespace "{space}";
            insert into {schema.Quoted}.filler select repeat('x', 1000) from generate_series(1, {FillerRows})
            """);
    }

    /// <summary>Sends to a queue that nobody receives from, until the disk is full.</summary>
    private static async Task FillAsync(TestSchema schema)
    {
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var producer = Some.Producer();
        for (var number = 1; number <= DiskBytes / MessageBytes; number++)
        {
            var batch = MessageBatchOf(producer, number);
            try
            {
                await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
            }
            catch (IOException exception)
            {
                Assert.Equal(DiskFull, Assert.IsType<PostgresException>(exception.InnerException).SqlState);
                return;
            }
        }

        Assert.Fail("The disk did not get full.");
    }

    private static MessageBatch MessageBatchOf(ProducerId producer, long number) =>
        MessageBatch.Create(OutputHandle.Named("filling"), producer, number, MessageOf((int)number));
}
