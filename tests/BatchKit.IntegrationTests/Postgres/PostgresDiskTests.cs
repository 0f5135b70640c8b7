using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What holds when the disk of the tables is full.</summary>
public sealed class PostgresDiskTests(OwnPostgresFixture fixture) : IClassFixture<OwnPostgresFixture>
{
    private const int DiskBytes = 32 * 1024 * 1024;
    private const int FillerRows = 20_000;
    private const int Messages = 30;
    private const int MessageBytes = 100_000;
    private const string DiskFull = PostgresErrorCodes.DiskFull;

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

    private static async Task MoveTablesAsync(TestSchema schema, SmallDisk disk)
    {
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        await schema.ExecuteAsync($"create tablespace small location '{disk.Path}'");
        await schema.ExecuteAsync($"""
            alter table {schema.Quoted}.messages set tablespace small;
            alter table {schema.Quoted}.claims set tablespace small;
            create table {schema.Quoted}.filler (filling text) tablespace small;
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
        MessageBatch.Create(OutputHandle.Named("filling"), producer, number, new BatchMessage(Some.RandomBytes(MessageBytes, (int)number)));
}
