using System.Collections.Concurrent;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Redis;
using BatchKit.Transports;
using StackExchange.Redis;

namespace BatchKit.Redis.Tests;

/// <summary>A connection that the server or the network ends.</summary>
public sealed class RedisConnectionTests(RedisFixture redis)
{
    private const int LimitBytes = 1024 * 1024;

    private readonly ConcurrentQueue<BrokerConnectionState> _changes = new();

    [Fact]
    public async Task A_frame_above_the_servers_limit_is_refused_by_the_settings_names_and_costs_one_connection_a_minute()
    {
        Assert.SkipUnless(RedisServer.WhyNotInstalled is null, RedisServer.WhyNotInstalled ?? "");
        await using var server = await RedisServer.StartOwnAsync();
        var options = Watch(new RedisOptions { Configuration = $"{server.Address.Host}:{server.Address.Port}", MaxFrameBytes = 8 * LimitBytes });
        await using var administrator = await ConnectionMultiplexer.ConnectAsync($"{options.Configuration},allowAdmin=true");
        await administrator.GetDatabase().ExecuteAsync("CONFIG", "SET", "proto-max-bulk-len", LimitBytes);
        var clock = new ManualTimeProvider();
        await using var transport = new RedisTransport(options, timeProvider: clock);

        var first = await FailAsync(transport);
        await Until.TrueAsync(() => _changes.LastOrDefault() == BrokerConnectionState.Restored);
        await Until.TrueAsync(() => CanSendAsync(transport));
        for (var number = 0; number < 3; number++)
        {
            Assert.Equal(first.Message, (await FailAsync(transport)).Message);
            await SendAsync(transport, bytes: 1);
        }

        Assert.Contains("Lower RedisOptions.MaxFrameBytes, or raise the server's proto-max-bulk-len.", first.Message, StringComparison.Ordinal);

        // The client may tell of one lost connection twice. Each of the four frames would cost one.
        Assert.InRange(_changes.Count(static change => change == BrokerConnectionState.Lost), 1, 2);

        await administrator.GetDatabase().ExecuteAsync("CONFIG", "SET", "proto-max-bulk-len", 8 * LimitBytes);
        Assert.Equal(first.Message, (await FailAsync(transport)).Message);
        clock.Advance(TimeSpan.FromMinutes(1));
        await SendAsync(transport, 2 * LimitBytes);
    }

    [Fact]
    public async Task Each_reset_of_the_connection_is_told_as_lost_and_then_as_restored()
    {
        var server = (await redis.GetAsync()).Address;
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var transport = new RedisTransport(Watch(await redis.NewOptionsAsync(proxy.Port)));
        await SendAsync(transport, bytes: 1);

        // The client may say that it is connected again before it says that it was not, and before it is.
        for (var resets = 1; resets <= 20; resets++)
        {
            await Until.TrueAsync(() => CanSendAsync(transport));
            proxy.ResetAll();
            await Until.TrueAsync(() => _changes.Count > 2 * resets);
        }

        await Until.TrueAsync(() => _changes.Last() == BrokerConnectionState.Restored);
    }

    [Fact]
    public async Task A_server_that_answers_nothing_behind_an_open_connection_is_told_as_lost_and_then_as_restored()
    {
        var server = (await redis.GetAsync()).Address;
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = Watch(await redis.NewOptionsAsync(proxy.Port));
        options.Configuration += ",asyncTimeout=500";
        await using var transport = new RedisTransport(options);
        await SendAsync(transport, bytes: 1);

        proxy.Stall();
        await Until.TrueAsync(async () => !await CanSendAsync(transport) && _changes.Last() == BrokerConnectionState.Lost);
        // The client gives the connection up then, and what waits for an answer fails with whatever it throws.
        await Until.TrueAsync(async () => (await FailAsync(transport, bytes: 1)).Message.Contains("is not connected", StringComparison.Ordinal));
        proxy.Resume();

        await Until.TrueAsync(() => CanSendAsync(transport));
        await Until.TrueAsync(() => _changes.Last() == BrokerConnectionState.Restored);
        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], _changes.Take(3));
    }

    private static async Task<bool> CanSendAsync(RedisTransport transport)
    {
        try
        {
            await SendAsync(transport, bytes: 1);
            return true;
        }
        catch (BatchSendException)
        {
            return false;
        }
    }

    private RedisOptions Watch(RedisOptions options)
    {
        options.ConnectionChanged = change => _changes.Enqueue(change.State);
        return options;
    }

    private static Task<BatchSendException> FailAsync(RedisTransport transport, int bytes = LimitBytes + 1) => Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, bytes));

    private static Task SendAsync(RedisTransport transport, int bytes) =>
        transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("room"), Some.Producer(), 1, new string('x', bytes)) }, TestContext.Current.CancellationToken).WithinDeadline();
}
