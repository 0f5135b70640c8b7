using System.Globalization;
using BatchKit.Testing;
using BatchKit.TestSupport;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using StackExchange.Redis;
using static BatchKit.Redis.Tests.RedisHosts;

namespace BatchKit.Redis.Tests;

/// <summary>What a user of the server may do.</summary>
public sealed class RedisRightsTests(RedisFixture redis)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    [Theory]
    [InlineData("&{0}:* &{0}:[0x][0x][0x][0x][2x]")]
    [InlineData("&*")]
    public async Task A_user_with_the_rights_that_the_reference_names_sends_and_receives(string channels)
    {
        const string user = "node-2";
        var options = await redis.NewOptionsAsync();
        await using var administrator = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        var rights = $"reset on >secret +echo +publish +psubscribe +punsubscribe {string.Format(CultureInfo.InvariantCulture, channels, options.Prefix)}";
        await administrator.GetDatabase().ExecuteAsync("ACL", [(object)"SETUSER", user, .. rights.Split(' ')]);
        options.Configuration += $",user={user},password=secret";

        using var host = await StartAsync(options, 2);
        // Pub/sub keeps nothing for a connection that is not there yet.
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Healthy);
        await host.Services.GetRequiredService<IOutputBuffer>().WriteAsync(Room, "to all");
        await host.Services.GetRequiredService<IOutputBuffer>().WriteAsync(OutputHandle.Connection(2, 1), "to me");

        await CollectedBy(host).WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["to all", "to me"], CollectedBy(host).Texts);
        Assert.Equal(HealthStatus.Healthy, await HealthOf(host));
    }

    [Fact]
    public async Task A_right_to_receive_that_is_taken_away_is_the_receivers_fault_until_it_is_given_back()
    {
        var options = await redis.NewOptionsAsync();
        await using var administrator = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        var user = Some.Name("user");
        await ChangeUserAsync("on >secret +@all &*");
        options.Configuration += $",user={user},password=secret";
        using var host = await StartAsync(options, 2);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        // The server ends the connections that are subscribed to what their user has lost.
        await ChangeUserAsync($"resetchannels &{options.Prefix}:*");
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Unhealthy);
        await ChangeUserAsync("&*");
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Healthy);
        await output.WriteAsync(Room, "hello");

        await CollectedBy(host).WaitForMessagesAsync(1).WithinDeadline();

        Task ChangeUserAsync(string rules) => administrator.GetDatabase().ExecuteAsync("ACL", [(object)"SETUSER", user, .. rules.Split(' ')]);
    }

    [Fact]
    public async Task A_receiver_whose_first_attempts_were_refused_leaves_no_subscription_when_it_ends()
    {
        var options = await redis.NewOptionsAsync();
        await using var administrator = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        var server = administrator.GetDatabase();
        var user = Some.Name("user");
        await server.ExecuteAsync("ACL", "SETUSER", user, "on", ">secret", "+@all", "resetchannels");
        await using var connection = await ConnectionMultiplexer.ConnectAsync($"{options.Configuration},user={user},password=secret");
        options.Configuration = null;
        await using var receiver = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(new CollectingTransport()), connection);

        var starting = receiver.StartAsync(CancellationToken.None);
        await Until.TrueAsync(async () => await CountRefusalsAsync() >= 2);
        await server.ExecuteAsync("ACL", "SETUSER", user, "&*");
        await starting.WithinDeadline();
        await receiver.DisposeAsync();

        await Until.TrueAsync(async () => await administrator.GetSubscriber().PublishAsync(RedisChannel.Literal($"{options.Prefix}:00002"), "no one") == 0);

        // Each entry is a list of names and values, the first of which is how often it was so. One of the values is the channel.
        async Task<long> CountRefusalsAsync() => ((RedisResult[])(await server.ExecuteAsync("ACL", "LOG", 1000))!)
            .Where(entry => ((string[])entry!).Any(value => value.Contains(options.Prefix, StringComparison.Ordinal))).Sum(static entry => (long)entry[1]);
    }
}
