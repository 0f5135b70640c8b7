using System.Text;
using BatchKit.HostWorker;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.IntegrationTests.Stops;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>Each user name, password and virtual host that RabbitMQ's administrator can create is refused with an error that names the setting, or it works.</summary>
[Trait("Lane", "night: many hostile names and logins")]
public sealed class HostileLoginTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    private const int Node = 2;

    // All of them are arguments of one command.
    private const int NamesOfACommand = 30;

    [Theory]
    [InlineData(nameof(Login.UserName))]
    [InlineData(nameof(Login.Password))]
    [InlineData(nameof(Login.VirtualHost))]
    public async Task A_part_of_a_login_is_refused_by_its_setting_or_works(string setting)
    {
        var server = await fixture.GetAsync();
        Login[] logins = [.. HostileNames.Create().Select((name, number) => CreateLogin(setting, name, number))];
        foreach (var some in logins.Where(static login => login.IsUnicode).Chunk(NamesOfACommand))
            await server.EvaluateAsync(string.Concat(some.Select(static login => login.ToCommand())) + "ok");

        foreach (var transport in (string[])[BrokerPath.RabbitMq, BrokerPath.MassTransit])
            await AssertRefusedOrWorksAsync(server, transport, setting, logins);
    }

    private static async Task AssertRefusedOrWorksAsync(RabbitMqServer server, string transport, string setting, Login[] logins)
    {
        var (refused, worked) = (0, 0);
        foreach (var login in logins)
        {
            try
            {
                await AssertWorksAsync(new BrokerPath(transport, $"amqp://{server.Host}:{server.Port}", Some.Name("login")), login);
                worked++;
            }
            catch (OptionsValidationException refusal)
            {
                Assert.Contains(setting, refusal.Message, StringComparison.Ordinal);
                refused++;
            }
        }

        Assert.True(refused > 0 && worked > 0, $"{transport}: {refused} refused, {worked} worked");
    }

    private static Login CreateLogin(string setting, string name, int number) => setting switch
    {
        nameof(Login.UserName) => new Login(name, "password", "/"),
        nameof(Login.Password) => new Login($"user {number}", name, "/"),
        _ => new Login("guest", "guest", name),
    };

    private static async Task AssertWorksAsync(BrokerPath path, Login login)
    {
        var arrived = new CollectingTransport();
        var host = PathHost.Build(services =>
        {
            services.AddBatchKit(options => options.Node = Node).SendTo(path, Node).ReceiveFrom(path, Node, _ => arrived);
            services.PostConfigureAll<RabbitMqOptions>(options => (options.UserName, options.Password, options.VirtualHost) = login);
            services.PostConfigureAll<MassTransitOptions>(options => (options.RabbitMq!.UserName, options.RabbitMq.Password, options.RabbitMq.VirtualHost) = login);
        });
        await PathHost.StartAsync(host);
        await PathHost.AssertCarriesAndStopAsync(host, Node, arrived);
    }

    private sealed record Login(string UserName, string Password, string VirtualHost)
    {
        private static readonly UTF8Encoding Strict = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

        public bool IsUnicode => Record.Exception(() => Strict.GetByteCount(UserName + Password + VirtualHost)) is null;

        /// <summary>Erlang expressions that create it. What the broker itself refuses stays away.</summary>
        public string ToCommand()
        {
            var (user, password, host) = (RabbitMqControl.Binary(UserName), RabbitMqControl.Binary(Password), RabbitMqControl.Binary(VirtualHost));
            return $"catch rabbit_vhost:add({host}, <<\"test\">>), catch rabbit_auth_backend_internal:add_user({user}, {password}, <<\"test\">>), "
                + $"catch rabbit_auth_backend_internal:set_permissions({user}, {host}, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"test\">>), ";
        }
    }
}
