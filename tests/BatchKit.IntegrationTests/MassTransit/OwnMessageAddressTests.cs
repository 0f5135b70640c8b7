using System.Text;
using BatchKit.IntegrationTests.Pages;
using BatchKit.MassTransit;
using BatchKit.Testing;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>The application's own messages whose address or type its bus does not take.</summary>
public sealed class OwnMessageAddressTests
{
    private readonly TelnetScreen _screen = new();

    [Theory]
    [InlineData(null, "no address for this player")]
    [InlineData("foo:bar", "The address scheme is not supported: foo")]
    [InlineData("telnet-output", "relative")]
    public async Task A_batch_whose_address_throws_or_is_none_of_the_bus_is_refused_alone(string? address, string reason)
    {
        var (bad, good) = (OutputHandle.Connection(1), OutputHandle.Connection(2));
        using var host = await StartAsync(handle =>
            handle == good ? new Uri("queue:telnet-output") : new Uri(address ?? throw new InvalidOperationException("no address for this player"), UriKind.RelativeOrAbsolute));
        var output = host.Services.GetRequiredService<OutputBuffer>();

        output.Write(bad, "bad");
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => output.FlushAsync(bad).AsTask().WithinDeadline());
        output.Write(good, "good");
        await output.FlushAsync(good).AsTask().WithinDeadline();

        await _screen.WaitForAsync("good");
        Assert.Contains("SendTo", $"{failure}", StringComparison.Ordinal);
        Assert.Contains(reason, $"{failure}", StringComparison.Ordinal);
        Assert.Equal((1, 1), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().FailedMessages));
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public void A_type_that_MassTransit_does_not_send_is_refused_by_name_where_it_is_registered()
    {
        var services = new ServiceCollection();

        var ofRoute = Assert.Throws<InvalidOperationException>(() => services.AddBatchKit().UseMassTransit<StringBuilder>(static batch => new StringBuilder(batch.Count)));
        var ofHandler = Assert.Throws<InvalidOperationException>(() => services.AddMassTransit(static setup =>
            setup.AddMessageHandler<StringBuilder, GameInput>(static message => new ReceivedMessage(OutputHandle.Connection(1), Encoding.UTF8.GetBytes($"{message}")))));

        Assert.All([ofRoute, ofHandler], static error =>
        {
            Assert.Contains("StringBuilder", error.Message, StringComparison.Ordinal);
            Assert.Contains("must not be in the System namespace", error.Message, StringComparison.Ordinal);
        });
    }

    [Fact]
    public async Task A_message_that_is_read_as_null_is_refused()
    {
        var faults = new TaskCompletionSource<string>(TaskCreationOptions.RunContinuationsAsynchronously);
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton(_screen).AddOptions<MassTransitHostOptions>().Configure(static options => options.WaitUntilStarted = true);
        application.Services.AddMassTransit(setup =>
        {
            setup.AddMessageHandler<TelnetInputMessage, GameInput>(static _ => null!);
            setup.UsingInMemory((context, bus) => bus.ReceiveEndpoint("telnet-input", endpoint =>
            {
                endpoint.ConfigureConsumer<HandlerConsumer<TelnetInputMessage, GameInput>>(context);
                endpoint.Handler<Fault<TelnetInputMessage>>(fault =>
                {
                    faults.TrySetResult(fault.Message.Exceptions[0].Message);
                    return Task.CompletedTask;
                });
            }));
        });
        using var host = application.Build();
        await host.StartAsync().WithinDeadline();

        await host.Services.GetRequiredService<IBus>().Publish(new TelnetInputMessage(1, []));

        Assert.Contains("TelnetInputMessage returned null", await faults.Task.WithinDeadline(), StringComparison.Ordinal);
        await host.StopAsync().WithinDeadline();
    }

    private async Task<IHost> StartAsync(Func<OutputHandle, Uri> sendTo)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddOptions<MassTransitHostOptions>().Configure(static options => options.WaitUntilStarted = true);
        application.Services.AddMassTransit(setup => setup.UsingInMemory((_, bus) =>
            bus.ReceiveEndpoint("telnet-output", endpoint => endpoint.Consumer(() => new TelnetOutputConsumer(_screen)))));
        application.Services.AddBatchKit().UseMassTransit<TelnetOutputMessage>(static batch => new(batch.Handle.Number, batch.Payload.ToArray()), options => options.SendTo = sendTo);
        var host = application.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }
}
