using System.Globalization;
using BatchKit.TestServers.Redis;
using BatchKit.TestSupport;
using Microsoft.Extensions.DependencyInjection;
using StackExchange.Redis;
using static BatchKit.Redis.Tests.RedisHosts;

namespace BatchKit.Redis.Tests;

/// <summary>A primary and its replica, which change places.</summary>
public sealed class RedisFailoverTests
{
    [Fact]
    public async Task Output_that_reaches_a_receiver_at_the_former_primary_counts_as_sent()
    {
        RequiredServer.SkipWhen(RedisServer.WhyNotInstalled);
        await using var first = await RedisServer.StartOwnAsync();
        await using var second = await RedisServer.StartOwnAsync();
        await using var administrator = await ConnectionMultiplexer.ConnectAsync($"{first.Address.Authority},{second.Address.Authority},allowAdmin=true,configCheckSeconds=1");
        var (primary, replica) = (administrator.GetServer(first.Address.Authority), administrator.GetServer(second.Address.Authority));
        await replica.ReplicaOfAsync(primary.EndPoint);
        await WaitForReplicaAsync(primary);
        var options = new RedisOptions { Configuration = $"{first.Address.Authority},{second.Address.Authority},configCheckSeconds=1" };
        using var sender = await StartAsync(options, 1);
        using var receiver = await StartAsync(options, 2);
        var output = sender.Services.GetRequiredService<OutputBuffer>();
        var connection = OutputHandle.Connection(2, 1);

        await replica.ExecuteAsync("REPLICAOF", "NO", "ONE");
        await primary.ReplicaOfAsync(replica.EndPoint);
        await WaitForReplicaAsync(replica);
        await Until.TrueAsync(async () =>
        {
            // Until the client knows the new primary, it publishes at the former one.
            await output.WriteAsync(connection, "hello");
            await output.FlushAsync(connection);
            return await CountPublishesAsync(replica) >= 3;
        });

        var statistics = output.GetStatistics();
        await CollectedBy(receiver).WaitForMessagesAsync((int)statistics.AcceptedMessages).WithinDeadline();
        Assert.Equal(0, statistics.FailedMessages);
    }

    private static Task WaitForReplicaAsync(IServer primary) => Until.TrueAsync(async () => await ReadAsync(primary, "replication", "slave0") is { } state && state.Contains("state=online", StringComparison.Ordinal));

    private static async Task<int> CountPublishesAsync(IServer server) =>
        await ReadAsync(server, "commandstats", "cmdstat_publish") is { } calls ? int.Parse(calls.Split('=', ',')[1], CultureInfo.InvariantCulture) : 0;

    private static async Task<string?> ReadAsync(IServer server, string section, string name) =>
        (await server.InfoAsync(section)).SelectMany(static group => group).FirstOrDefault(entry => entry.Key == name).Value;
}
