using BatchKit.IntegrationTests.Pages;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>The application's own messages over its own bus, on a broker that takes small ones only.</summary>
public sealed class OwnMessageLimitTests(OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private const int MaxMessageBytes = 32 * 1024;

    private readonly string _name = Some.Name("own");
    private readonly TelnetScreen _screen = new();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_message_above_the_brokers_limit_is_refused_alone_and_at_once(bool isSent)
    {
        using var host = await StartAsync(isSent);
        var output = host.Services.GetRequiredService<OutputBuffer>();
        var (player, crowd) = (OutputHandle.Connection(7), OutputHandle.Connection(8));

        await WriteAsync(output, player, "before");
        var first = await Assert.ThrowsAsync<OutputDeliveryException>(() => WriteAsync(output, crowd, new string('x', 40_000)));
        await WriteAsync(output, player, "between");
        var second = await Assert.ThrowsAsync<OutputDeliveryException>(() => WriteAsync(output, crowd, new string('x', 50_000)));
        await WriteAsync(output, player, "after");

        await _screen.WaitForAsync("after");
        // The broker may have had a message whose confirm was lost with the channel.
        Assert.Equal(["before", "between", "after"], _screen.Messages.Select(message => message.Text).Distinct());
        Assert.Contains($"is larger than configured max size {MaxMessageBytes}", $"{first}", StringComparison.Ordinal);
        Assert.Contains($"does not fit the broker's max_message_size (max size {MaxMessageBytes})", $"{second}", StringComparison.Ordinal);
        Assert.Equal((3, 2), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().FailedMessages));
        await host.StopAsync().WithinDeadline();
    }

    private static async Task WriteAsync(OutputBuffer output, OutputHandle handle, string text)
    {
        var scope = output.BeginBufferingScope(handle);
        output.Write(handle, text);
        await scope.DisposeAsync().WithinDeadline();
    }

    private async Task<IHost> StartAsync(bool isSent)
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(MaxMessageBytes);
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddOptions<MassTransitHostOptions>().Configure(options => options.WaitUntilStarted = true);
        application.Services.AddMassTransit(setup => setup.UsingRabbitMq((_, bus) =>
        {
            ApplicationBusTests.ConnectTo(server, bus);
            bus.MessageTopology.SetEntityNameFormatter(new PrefixEntityNameFormatter(bus.MessageTopology.EntityNameFormatter, _name));
            bus.ReceiveEndpoint(_name, endpoint =>
            {
                endpoint.ConcurrentMessageLimit = 1;
                endpoint.Consumer(() => new TelnetOutputConsumer(_screen));
            });
        }));
        application.Services.AddBatchKit().UseMassTransit<TelnetOutputMessage>(
            batch => new(batch.Handle.Number, batch.Payload.ToArray()),
            options => options.SendTo = isSent ? _ => new Uri($"queue:{_name}") : null);
        var host = application.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }
}
