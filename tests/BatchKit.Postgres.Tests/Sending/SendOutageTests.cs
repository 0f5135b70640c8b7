using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>A server that goes away, comes back, falls silent or writes no more costs time, and no message.</summary>
[Trait("Lane", "faults: connections are cut again and again")]
public sealed class SendOutageTests(PostgresFixture postgres)
{
    // Npgsql first asks the server to cancel, over a way that is silent too: it gives that up after these.
    private const string SoonGivenUp = "Timeout=1;Cancellation Timeout=200";

    [Fact]
    public async Task A_server_that_became_read_only_is_reported_and_found_again_when_it_writes()
    {
        await using var server = await StartOwnAsync();
        await using var place = SendingPlace.Make(TestSchema.On(server));
        await place.RetrySendAsync(1, "one");
        await place.Schema.ExecuteAsync("alter system set default_transaction_read_only = on");
        await place.Schema.ExecuteAsync("select pg_reload_conf()");
        await WaitForReadOnlyAsync(place, "on");

        var error = await place.FailSendAsync(2, "two");
        await place.FailSendAsync(2, "two");
        var fault = await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken);
        await place.Schema.ExecuteAsync("alter system reset default_transaction_read_only");
        await place.Schema.ExecuteAsync("select pg_reload_conf()");
        await WaitForReadOnlyAsync(place, "off");

        Assert.Equal(1, place.Log.Count(2600));
        Assert.Equal(PostgresErrorCodes.ReadOnlySqlTransaction, Assert.IsType<PostgresException>(error.InnerException).SqlState);
        Assert.Contains("read-only", fault, StringComparison.Ordinal);
        await SucceedAsync(place);
        Assert.Null(await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task A_restarted_a_killed_and_a_frozen_server_lose_nothing()
    {
        await using var server = await StartOwnAsync();
        await using var place = SendingPlace.Make(TestSchema.On(server), settings: SoonGivenUp, configure: options => options.CommandTimeout = TimeSpan.FromSeconds(1));
        await place.RetrySendAsync(1, "one");

        await server.StopAsync();
        await place.FailSendAsync(2, "two");
        Assert.Contains("can't be used", await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken), StringComparison.Ordinal);
        await server.StartAsync();
        await place.RetrySendAsync(2, "two");
        await server.KillAsync();
        await place.FailSendAsync(3, "three");
        await server.StartAsync();
        await place.RetrySendAsync(3, "three");
        server.Freeze();
        await place.FailSendAsync(4, "four");
        server.Thaw();
        await place.RetrySendAsync(4, "four");

        Assert.Equal(["one", "two", "three", "four"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_way_that_falls_silent_is_given_up_at_the_time_limit_and_the_next_send_takes_another()
    {
        await using var place = await SendingPlace.MakeOverProxyAsync(postgres, options => options.CommandTimeout = TimeSpan.FromSeconds(1), SoonGivenUp);
        await place.RetrySendAsync(1, "one");

        place.Proxy!.Stall();
        var error = await place.FailSendAsync(2, "two");
        place.Proxy.Resume();

        // The transport's limit and the driver's end at the same moment; either may be first.
        Assert.True(error.InnerException is TimeoutException or NpgsqlException { InnerException: TimeoutException }, error.ToString());
        await place.RetrySendAsync(2, "two");
        Assert.Equal(["one", "two"], await place.TextsAsync());
    }

    [Fact]
    public async Task Health_is_told_at_the_time_limit_although_the_driver_waits_longer_for_a_silent_server()
    {
        await using var place = await SendingPlace.MakeOverProxyAsync(postgres, options => options.CommandTimeout = TimeSpan.FromSeconds(1), "Cancellation Timeout=60000");
        // Its connection stays in the pool, for the next question.
        Assert.Null(await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken));

        place.Proxy!.Stall();
        var fault = await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken).WaitAsync(TimeSpan.FromSeconds(15), TestContext.Current.CancellationToken);
        place.Proxy.Resume();

        Assert.EndsWith("can't be used: The server did not answer within 00:00:01 (CommandTimeout).", fault, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Cuts_anywhere_in_the_way_to_the_server_store_each_batch_once()
    {
        await using var place = await SendingPlace.MakeOverProxyAsync(postgres);
        var random = new Random(4711);
        await place.SendAsync(place.Batch("tasks", 1, "line 0"));

        for (var number = 2; number <= 40; number++)
        {
            place.Proxy!.CutAfter(random.Next(0, 3000));
            await place.RetrySendAsync(number, $"line {number - 1}");
        }

        Assert.Equal(Some.Lines(40), await place.TextsAsync());
    }

    [Fact]
    public async Task Errors_and_faults_never_have_the_password()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var nowhere = NpgsqlDataSource.Create("Host=127.0.0.1;Port=1;Username=someone;Password=secret-4711;Timeout=5");
        await using var transport = new PostgresQueueTransport(nowhere, new PostgresOptions { Schema = schema.Name });

        var error = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken).WithinDeadline());
        var fault = await transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.Contains("PostgreSQL at 127.0.0.1:1", error.Message, StringComparison.Ordinal);
        Assert.Contains("PostgreSQL at 127.0.0.1:1", fault, StringComparison.Ordinal);
        Assert.DoesNotContain("secret-4711", $"{error} {fault}", StringComparison.Ordinal);
    }

    private static Task<PostgresServer> StartOwnAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        return PostgresServer.StartOwnAsync();
    }

    private static async Task SucceedAsync(SendingPlace place)
    {
        await place.RetrySendAsync(2, "two");
        Assert.Equal(["one", "two"], await place.TextsAsync());
    }

    private static Task WaitForReadOnlyAsync(SendingPlace place, string value) =>
        Until.TrueAsync(async () => await place.Schema.ScalarAsync<string>("show default_transaction_read_only") == value);
}
