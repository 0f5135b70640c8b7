using BatchKit.IntegrationTests.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Rights that are taken away from both ends while they run: the fault says so until the rights are back, and then everything that was accepted arrives.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class RabbitMqRightsTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    private const string Password = "secret-of-this-test";

    private readonly string _user = Some.Name("user");

    [Theory]
    [InlineData("write")]
    [InlineData("all of them")]
    [InlineData("the virtual host")]
    [InlineData("the password")]
    public async Task Rights_that_are_taken_away_are_a_fault_that_says_so_until_they_are_back(string taken)
    {
        var server = await fixture.GetAsync();
        await server.AddUserAsync(_user, Password);
        var options = RabbitMqSome.Options(server, options => (options.UserName, options.Password, options.ReconnectDelay) = (_user, Password, TimeSpan.FromMilliseconds(20)));
        await using var path = await RabbitMqPath.StartAsync(options, options);
        var handle = Some.Connection(RabbitMqPath.Node);
        path.Output.Write(handle, "line 0"u8);
        await path.Arrived.WaitForMessagesAsync(1);

        await TakeAsync(server, taken);
        path.Output.Write(handle, "line 1"u8);
        await Until.TrueAsync(() => path.Receiver.Fault?.Contains("refused", StringComparison.OrdinalIgnoreCase) == true);
        await Until.TrueAsync(() => path.Output.GetHealth().Reasons.Any(static reason => reason.Contains("refused", StringComparison.OrdinalIgnoreCase)));
        path.Output.Write(handle, "line 2"u8);

        await GiveBackAsync(server, taken);
        await path.Arrived.WaitForMessagesAsync(3);
        await Until.TrueAsync(() => path.Receiver.Fault is null);
        Assert.Equal(Some.Lines(3), path.Arrived.Texts);
        await path.Output.FlushAsync().WithinDeadline();
        path.AssertAllAcknowledged();
    }

    [Theory]
    [InlineData("write")]
    [InlineData("all of them")]
    [InlineData("the virtual host")]
    [InlineData("the password")]
    public async Task Rights_that_are_taken_away_over_MassTransit_are_a_fault_that_says_so_until_they_are_back(string taken)
    {
        var server = await fixture.GetAsync();
        await server.AddUserAsync(_user, Password);
        await using var node = await MassTransitNode.StartReadyAsync(
            RabbitMqPath.Node, MassTransitSome.Settings(server, Some.Name("mt"), configure: options => (options.RabbitMq!.UserName, options.RabbitMq.Password) = (_user, Password)));
        var handle = Some.Connection(RabbitMqPath.Node);
        node.Output.Write(handle, "line 0"u8);
        await node.Received.WaitForMessagesAsync(1);

        await TakeAsync(server, taken);
        node.Output.Write(handle, "line 1"u8);
        await node.WaitForHealthAsync(HealthStatus.Unhealthy, "refused");
        node.Output.Write(handle, "line 2"u8);

        await GiveBackAsync(server, taken);
        await node.Received.WaitForMessagesAsync(3);
        await node.WaitForHealthAsync(HealthStatus.Healthy);
        Assert.Equal(Some.Lines(3), node.Received.Texts);
        await node.Output.FlushAsync().WithinDeadline();
        Assert.Equal(3, node.Output.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_missing_right_to_write_is_named_with_what_to_change()
    {
        var server = await fixture.GetAsync();
        await server.AddUserAsync(_user, Password);
        await server.GrantAsync(_user, write: "^$");
        var options = RabbitMqSome.Options(server, options => (options.UserName, options.Password) = (_user, Password));
        await using var path = await RabbitMqPath.StartAsync(options, options);
        path.Output.Write(Some.Connection(RabbitMqPath.Node), "line"u8);

        await Until.TrueAsync(() => path.Output.GetHealth().Reasons.Any(reason => reason.Contains($"refused for user '{_user}'. Give the user this right.", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task A_virtual_host_that_is_refused_again_and_again_is_logged_once()
    {
        var server = await fixture.GetAsync();
        await server.AddUserAsync(_user, Password);
        await server.ClearPermissionsAsync(_user);
        var log = new LogCollector();
        var options = RabbitMqSome.Options(server, options => (options.UserName, options.Password) = (_user, Password));
        await using var connection = new RabbitMqConnection(options, "sender", new CreateChannelOptions(publisherConfirmationsEnabled: false, publisherConfirmationTrackingEnabled: false), static (_, _, _) => Task.CompletedTask, TimeProvider.System, log, metrics: null);

        for (var attempt = 0; attempt < 5; attempt++)
            await Assert.ThrowsAsync<IOException>(() => connection.OpenAsync(TestContext.Current.CancellationToken).AsTask());

        Assert.Contains("access to vhost", Assert.Single(log.Entries).Text, StringComparison.Ordinal);
        Assert.Equal(1, log.Count(221));
    }

    [Fact]
    public async Task A_missing_right_to_write_over_MassTransit_is_named_with_what_to_change()
    {
        var server = await fixture.GetAsync();
        await server.AddUserAsync(_user, Password);
        await server.GrantAsync(_user, write: "^$");
        await using var node = await MassTransitNode.StartAsync(
            RabbitMqPath.Node, MassTransitSome.Settings(server, Some.Name("mt"), configure: options => (options.RabbitMq!.UserName, options.RabbitMq.Password) = (_user, Password)));
        node.Output.Write(Some.Connection(RabbitMqPath.Node), "line"u8);

        await Until.TrueAsync(() => node.Output.GetHealth().Reasons.Any(reason => reason.Contains($"refused for user '{_user}'. Give the user this right.", StringComparison.Ordinal)));
        await node.WaitForHealthAsync(HealthStatus.Unhealthy, "Give the user this right.");
    }

    // The broker may remember rights as long as a connection lives.
    private async Task TakeAsync(RabbitMqServer server, string taken)
    {
        await (taken switch
        {
            "write" => server.GrantAsync(_user, write: "^$"),
            "all of them" => server.GrantAsync(_user, "^$", "^$", "^$"),
            "the virtual host" => server.ClearPermissionsAsync(_user),
            _ => server.ChangePasswordAsync(_user, "changed"),
        });
        await server.CloseConnectionsAsync(_user);
    }

    private Task GiveBackAsync(RabbitMqServer server, string taken) => taken == "the password" ? server.ChangePasswordAsync(_user, Password) : server.GrantAsync(_user);
}
