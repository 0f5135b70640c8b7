using BatchKit.MassTransit;
using MassTransit;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.MassTransit;

public sealed class MassTransitOptionsTests
{
    [Fact]
    public async Task A_prefix_that_no_broker_takes_stops_the_start_and_is_named()
    {
        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => MassTransitNode.StartAsync(1, options => options.Prefix = "a b").WithinDeadline());

        Assert.Contains(nameof(MassTransitOptions.Prefix), failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_host_with_a_port_that_is_none_stops_the_start_and_is_not_repeated()
    {
        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() =>
            MassTransitNode.StartAsync(1, options => options.RabbitMq = new() { Hosts = ["amqp://user:secret@broker"] }).WithinDeadline());

        Assert.Contains("Hosts[0]", failure.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("amqp://broker", false, "guest", "guest", "/", "broker:5672")]
    [InlineData("amqps://ana:p%40ss@broker-1,broker-2:5673/games", true, "ana", "p@ss", "games", "broker-1:5671 broker-2:5673")]
    [InlineData("amqp://u:p@one/v, amqp://u:p@two:5673/v", false, "u", "p", "v", "one:5672 two:5673")]
    public void A_connection_string_names_hosts_user_virtual_host_and_tls(string text, bool tls, string user, string password, string virtualHost, string hosts)
    {
        var options = new MassTransitRabbitMqOptions { ConnectionString = text, Hosts = ["other"], Port = 1 }.Copy();

        Assert.Equal((tls, user, password, virtualHost), (options.UseTls, options.UserName, options.Password, options.VirtualHost));
        Assert.Equal(hosts.Split(' '), options.Hosts.Select(options.Split).Select(static host => $"{host.Host}:{host.Port}"));
    }

    [Theory]
    [InlineData("http://u:secret@broker")]
    [InlineData("amqp://u:secret@broker?heartbeat=5")]
    [InlineData("amqp://u:secret@one,amqps://u:secret@two")]
    public async Task A_connection_string_that_is_none_stops_the_start_and_is_not_repeated(string text)
    {
        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() =>
            MassTransitNode.StartAsync(1, options => options.RabbitMq = new() { ConnectionString = text }).WithinDeadline());

        Assert.Contains("RabbitMq.ConnectionString ", failure.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_bus_of_the_applications_and_a_broker_of_ones_own_exclude_each_other()
    {
        var bus = Bus.Factory.CreateUsingInMemory(static _ => { });

        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => MassTransitNode.StartAsync(1, options =>
        {
            options.Bus = _ => bus;
            options.RabbitMq = new();
        }).WithinDeadline());

        Assert.Contains(nameof(MassTransitOptions.Bus), failure.Message, StringComparison.Ordinal);
    }
}
