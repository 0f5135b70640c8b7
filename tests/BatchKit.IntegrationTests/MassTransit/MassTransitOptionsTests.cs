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
