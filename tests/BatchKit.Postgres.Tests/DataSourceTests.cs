using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Testing;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>Data sources with which nothing would work are refused with the remedy, and the remedy works.</summary>
public sealed class DataSourceTests(PostgresFixture postgres)
{
    [Fact]
    public async Task A_data_source_that_multiplexes_is_refused_with_the_remedy()
    {
        await using var source = NpgsqlDataSource.Create($"{(await postgres.GetAsync()).ConnectionString};Multiplexing=true");

        Assert.All(
            [
                Assert.Throws<ArgumentException>("dataSource", () => new PostgresQueueTransport(source)),
                Assert.Throws<ArgumentException>("dataSource", () => new PostgresQueueReceiver(source, new PostgresQueueReceiverOptions { Queue = "tasks" }, new ScriptedHandler())),
                Assert.Throws<ArgumentException>("dataSource", () => new PostgresOutbox(source, new CollectingTransport())),
            ],
            error => Assert.Contains("Use another data source without it", error.Message, StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_slim_data_source_needs_arrays_and_says_so(bool hasArrays)
    {
        await using var schema = await postgres.NewSchemaAsync();
        var builder = new NpgsqlSlimDataSourceBuilder(schema.DataSource.ConnectionString);
        if (hasArrays)
            builder.EnableArrays();
        await using var source = builder.Build();
        await using var transport = new PostgresQueueTransport(source, new PostgresOptions { Schema = schema.Name });
        var handler = new KeepingHandler();
        await using var receiver = new PostgresQueueReceiver(source, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", PollInterval = TimeSpan.FromMilliseconds(50), FailFast = true }, handler);

        var sending = transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken).AsTask();
        var receiving = receiver.StartAsync(TestContext.Current.CancellationToken);

        if (hasArrays)
        {
            await Task.WhenAll(sending, receiving).WithinDeadline();
            await handler.WaitForAsync(1);
            return;
        }

        Assert.Contains("call EnableArrays()", (await Assert.ThrowsAsync<IOException>(() => sending)).Message, StringComparison.Ordinal);
        Assert.Contains("call EnableArrays()", (await Assert.ThrowsAsync<IOException>(() => receiving)).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(PostgresErrorCodes.InvalidSqlStatementName)]
    [InlineData(PostgresErrorCodes.DuplicatePreparedStatement)]
    public void An_error_of_a_pooler_in_transaction_mode_names_the_setting(string state) =>
        Assert.Contains(nameof(PostgresOptions.UsePreparedStatements), ServerFault.Describe(new PostgresException("It is wrong.", "ERROR", "ERROR", state)), StringComparison.Ordinal);
}
