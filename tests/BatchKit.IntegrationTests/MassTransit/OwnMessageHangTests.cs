using BatchKit.IntegrationTests.Pages;
using BatchKit.Testing;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>The application's own messages over its own bus in memory, where something of the application's never ends and looks at no token.</summary>
public sealed class OwnMessageHangTests
{
    private const long Hanging = 3;

    private readonly TelnetScreen _screen = new();
    private readonly TaskCompletionSource _never = new(TaskCreationOptions.RunContinuationsAsynchronously);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Its_message_is_given_up_and_its_neighbours_arrive_once(bool inComplete)
    {
        using var host = await StartAsync(inComplete);
        var output = host.Services.GetRequiredService<OutputBuffer>();

        using (output.BeginBufferingScope())
        {
            for (var handle = 1; handle <= 5; handle++)
                output.Write(OutputHandle.Connection(handle), $"line {handle}");
        }

        await Until.TrueAsync(() => output.GetStatistics() is { AcknowledgedMessages: 4, FailedMessages: 1 });
        await Until.TrueAsync(() => _screen.Messages.Any(static message => message.Handle == 5));
        Assert.Equal(["line 1", "line 2", "line 4", "line 5"], _screen.Messages.Where(static message => message.Handle != Hanging).Select(static message => message.Text));
        _never.SetResult();
        await host.StopAsync().WithinDeadline();
    }

    private async Task<IHost> StartAsync(bool inComplete)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddScoped<Scoped>().AddSingleton(_never).AddOptions<MassTransitHostOptions>().Configure(static options => options.WaitUntilStarted = true);
        application.Services.AddMassTransit(setup => setup.UsingInMemory((context, bus) =>
        {
            bus.UsePublishFilter(inComplete ? typeof(NotingFilter<>) : typeof(HangingFilter<>), context);
            bus.ReceiveEndpoint("telnet-output", endpoint =>
            {
                endpoint.ConcurrentMessageLimit = 1;
                endpoint.Consumer(() => new TelnetOutputConsumer(_screen));
            });
        }));
        application.Services.AddBatchKit(static options => options.DeliveryTimeout = TimeSpan.FromSeconds(4)).UseMassTransit<TelnetOutputMessage>(
            static batch => new(batch.Handle.Number, batch.Payload.ToArray()),
            options =>
            {
                options.PublishTimeout = TimeSpan.FromSeconds(1);
                options.Complete = (scope, _) => inComplete && scope.GetRequiredService<Scoped>().Handle == Hanging ? _never.Task : Task.CompletedTask;
            });
        var host = application.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }

    private sealed class Scoped
    {
        public long Handle { get; set; }
    }

    private sealed class NotingFilter<T>(Scoped scoped) : IFilter<PublishContext<T>>
        where T : class
    {
        public Task Send(PublishContext<T> context, IPipe<PublishContext<T>> next)
        {
            if (context.Message is TelnetOutputMessage { Handle: var handle })
                scoped.Handle = handle;
            return next.Send(context);
        }

        public void Probe(ProbeContext context) => context.CreateFilterScope("noting");
    }

    private sealed class HangingFilter<T>(TaskCompletionSource never) : IFilter<PublishContext<T>>
        where T : class
    {
        public Task Send(PublishContext<T> context, IPipe<PublishContext<T>> next) =>
            context.Message is TelnetOutputMessage { Handle: Hanging } ? never.Task : next.Send(context);

        public void Probe(ProbeContext context) => context.CreateFilterScope("hanging");
    }
}
