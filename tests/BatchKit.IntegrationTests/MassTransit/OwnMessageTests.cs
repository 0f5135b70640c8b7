using System.Text;
using BatchKit.IntegrationTests.Pages;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Buffers whose output is the application's own messages, over its own bus on RabbitMQ, for consumers that know nothing of BatchKit.</summary>
public sealed class OwnMessageTests(RabbitMqFixture fixture)
{
    private const long Player = 7;

    private readonly string _name = Some.Name("own");
    private readonly TelnetScreen _screen = new();

    [Fact]
    public async Task A_loop_of_awaited_publishes_becomes_one_message_a_scope_for_the_same_consumer()
    {
        using var host = await StartAsync(services => ExistingMud.Add(services, Configure));
        var items = Enumerable.Range(1, 1000).Select(number => $"item {number}").ToArray();
        var output = host.Services.GetRequiredService<OutputBuffer>();

        await ExistingMud.ListBeforeAsync(host.Services.GetRequiredService<IBus>(), Player, items[..10]).WithinDeadline();
        await Until.TrueAsync(() => _screen.Messages.Length == 10);
        await ExistingMud.ListAsync(output, Player, items).WithinDeadline();
        await ExistingMud.ListAsync(output, Player, ["the end"]).WithinDeadline();

        await _screen.WaitForAsync("the end\r\n");
        Assert.Equal([(Player, string.Concat(items.Select(item => $"{item}\r\n"))), (Player, "the end\r\n")], _screen.Messages[10..]);
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task Each_message_is_one_of_the_applications_in_order()
    {
        using var host = await StartAsync(services =>
        {
            services.AddMassTransit(Configure);
            ExistingMud.AddOneByOne(services);
        });

        await ExistingMud.ListAsync(host.Services.GetRequiredService<IOutputBuffer>(), Player, Some.Lines(100)).WithinDeadline();

        await Until.TrueAsync(() => _screen.Messages.Length == 100);
        Assert.Equal(Some.Lines(100).Select(line => (Player, $"{line}\r\n")), _screen.Messages);
        await host.StopAsync().WithinDeadline();
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_the_serializer_or_the_delegate_throws_for_is_refused_alone(bool inDelegate)
    {
        using var host = await StartAsync(services =>
        {
            services.AddMassTransit(setup => UseRabbitMq(setup, endpoint => endpoint.Handler<FragileMessage>(context => Show(0, context.Message.Text))));
            services.AddBatchKit().UseMassTransit<FragileMessage>((_, message) =>
            {
                var text = Encoding.UTF8.GetString(message.Payload.Span);
                return inDelegate && text == FragileMessage.Bad ? throw new FormatException("The delegate says so.") : new FragileMessage(text);
            });
        });
        var output = host.Services.GetRequiredService<OutputBuffer>();

        var scope = output.BeginBufferingScope(OutputHandle.Connection(Player));
        foreach (var text in new[] { "one", FragileMessage.Bad, "three" })
            output.Write(OutputHandle.Connection(Player), text);
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        await _screen.WaitForAsync("three");
        Assert.Contains(inDelegate ? "The delegate says so." : "can't be serialized", $"{failure}", StringComparison.Ordinal);
        Assert.Equal(["one", "three"], _screen.Messages.Select(message => message.Text));
        Assert.Equal((2, 1), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().FailedMessages));
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_batch_that_is_refused_does_not_affect_its_neighbours()
    {
        using var host = await StartAsync(services =>
        {
            services.AddMassTransit(setup => UseRabbitMq(setup, endpoint => endpoint.Handler<FragileMessage>(context => Show(0, context.Message.Text))));
            services.AddBatchKit().UseMassTransit<FragileMessage>(batch => new FragileMessage(Encoding.UTF8.GetString(batch.Payload.Span)));
        });
        var output = host.Services.GetRequiredService<OutputBuffer>();

        await using (output.BeginBufferingScope(OutputHandle.Connection(2)))
        {
            output.Write(OutputHandle.Connection(1), "one");
            output.Write(OutputHandle.Connection(2), "two");
            output.Write(OutputHandle.Connection(3), FragileMessage.Bad);
            output.Write(OutputHandle.Connection(4), "four");
        }

        await Until.TrueAsync(() => _screen.Messages.Length == 3);
        await Until.TrueAsync(() => output.GetStatistics() is { AcknowledgedMessages: 3, FailedMessages: 1 });
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task Output_waits_while_the_broker_is_down_and_keeps_its_order()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        using var host = await StartAsync(services => ExistingMud.Add(services, setup => Configure(setup, proxy.Port)));
        var output = host.Services.GetRequiredService<OutputBuffer>();
        await ExistingMud.ListAsync(output, Player, ["before"]).WithinDeadline();

        proxy.ForwardTo(1);
        proxy.ResetAll();
        output.Write(OutputHandle.Connection(Player), "first");
        await Until.TrueAsync(() => output.GetStatistics().FailedSends > 0);
        output.Write(OutputHandle.Connection(Player), "second");
        proxy.ForwardTo(server.Port);

        // The broker may have had a message whose confirm was lost.
        await _screen.WaitForAsync("second");
        Assert.Equal(["before\r\n", "first", "second"], _screen.Messages.Select(message => message.Text).Distinct());
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task Filters_and_the_end_of_the_send_share_a_scope_of_the_services()
    {
        var saved = new List<int>();
        using var host = await StartAsync(services =>
        {
            services.AddScoped<Unit>();
            services.AddMassTransit(setup => UseRabbitMq(
                setup,
                endpoint => endpoint.Handler<TelnetOutputMessage>(context => Show(context.Headers.Get<int>("unit") ?? -1, Encoding.UTF8.GetString(context.Message.Bytes))),
                bus: (context, bus) => bus.UsePublishFilter(typeof(UnitFilter<>), context)));
            services.AddBatchKit().UseMassTransit<TelnetOutputMessage>(
                batch => new(batch.Handle.Number, batch.Payload.ToArray()),
                options => options.Complete = (scope, _) =>
                {
                    saved.Add(scope.GetRequiredService<Unit>().Writes);
                    return Task.CompletedTask;
                });
        });
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        await ExistingMud.ListAsync(output, Player, ["one"]).WithinDeadline();
        await ExistingMud.ListAsync(output, Player, ["two"]).WithinDeadline();

        await _screen.WaitForAsync("two\r\n");
        Assert.Equal([1, 1], saved);
        Assert.Equal([1L, 1L], _screen.Messages.Select(message => message.Handle));
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task Messages_are_sent_to_an_address_over_one_of_several_buses_and_a_handler_consumes_them()
    {
        using var host = await StartAsync(services =>
        {
            services.AddMassTransit<IGameBus>(setup =>
            {
                setup.AddMessageHandler<TelnetInputMessage, GameInput>(message => new ReceivedMessage(OutputHandle.Connection(message.Handle), message.Bytes));
                setup.UsingRabbitMq((context, bus) =>
                {
                    ApplicationBusTests.ConnectTo(fixture.GetAsync().Result, bus);
                    bus.ReceiveEndpoint(_name, endpoint =>
                    {
                        endpoint.AutoDelete = true;
                        endpoint.ConfigureConsumer<BatchKit.MassTransit.HandlerConsumer<TelnetInputMessage, GameInput>>(context);
                    });
                });
            });
            services.AddBatchKit().UseMassTransit<IGameBus, TelnetInputMessage>(
                batch => new(batch.Handle.Number, batch.Payload.ToArray()), options => options.SendTo = _ => new Uri($"queue:{_name}?autodelete=true"));
        });
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        output.Write(OutputHandle.Connection(Player), "look");

        await _screen.WaitForAsync("look");
        Assert.Equal([(Player, "look")], _screen.Messages);
        await host.StopAsync().WithinDeadline();
    }

    private void Configure(IBusRegistrationConfigurator setup) => Configure(setup, port: null);

    private void Configure(IBusRegistrationConfigurator setup, int? port)
    {
        UseRabbitMq(setup, endpoint => endpoint.Consumer(() => new TelnetOutputConsumer(_screen)), port);
    }

    private void UseRabbitMq(
        IBusRegistrationConfigurator setup, Action<IReceiveEndpointConfigurator> configure, int? port = null, Action<IBusRegistrationContext, IRabbitMqBusFactoryConfigurator>? bus = null) =>
        setup.UsingRabbitMq((context, rabbit) =>
        {
            ApplicationBusTests.ConnectTo(fixture.GetAsync().Result, rabbit, port);
            // Tests share a broker, and exchanges have the names of types.
            rabbit.MessageTopology.SetEntityNameFormatter(new PrefixEntityNameFormatter(rabbit.MessageTopology.EntityNameFormatter, _name));
            bus?.Invoke(context, rabbit);
            rabbit.ReceiveEndpoint(_name, endpoint =>
            {
                endpoint.ConcurrentMessageLimit = 1;
                configure(endpoint);
            });
        });

    private Task Show(long handle, string text)
    {
        _screen.Show(handle, text);
        return Task.CompletedTask;
    }

    private async Task<IHost> StartAsync(Action<IServiceCollection> add)
    {
        await fixture.GetAsync();
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton(_screen).AddOptions<MassTransitHostOptions>().Configure(options => options.WaitUntilStarted = true);
        add(application.Services);
        var host = application.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }

    /// <summary>A unit of work: what is written in one scope of the services.</summary>
    private sealed class Unit
    {
        public int Writes { get; set; }
    }

    private sealed class UnitFilter<T>(Unit unit) : IFilter<PublishContext<T>>
        where T : class
    {
        public Task Send(PublishContext<T> context, IPipe<PublishContext<T>> next)
        {
            context.Headers.Set("unit", ++unit.Writes);
            return next.Send(context);
        }

        public void Probe(ProbeContext context) => context.CreateFilterScope("unit");
    }
}

/// <summary>A message that can't be serialized when its text is bad.</summary>
public sealed record FragileMessage(string Text)
{
    public const string Bad = "bad";

    public string Checked => Text == Bad ? throw new InvalidOperationException("A bad text.") : Text;
}
