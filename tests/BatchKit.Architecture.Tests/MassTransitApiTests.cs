using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.Metadata.Ecma335;
using System.Reflection.PortableExecutable;
using BatchKit.MassTransit;
using Microsoft.Extensions.Hosting;
using IBus = MassTransit.IBus;

namespace BatchKit.Architecture.Tests;

/// <summary>One binary of BatchKit.MassTransit works with each MassTransit of its range, because it uses what MassTransit documents for applications. The package compiles with the lowest; these tests load the newest.</summary>
public sealed class MassTransitApiTests
{
    // The rest of these namespaces is how MassTransit is made, and changes within a major version.
    private static readonly string[] OutsideTheDocumentedNamespaces =
    [
        "MassTransit.RabbitMqTransport.ChannelContext", "MassTransit.RabbitMqTransport.ConnectionContext", // what filters of ConfigureChannel get
        "MassTransit.DependencyInjection.Bind`2", // what MassTransit's page on several buses tells applications to inject
        "MassTransit.Transports.Fabric.ExchangeType", // an argument of an in-memory endpoint's Bind
        "MassTransit.Logging.ILogContext", // the type of LogContext.Current
    ];

    private static readonly string[] DocumentedNamespaces = ["MassTransit", "MassTransit.Serialization"];

    // In place of the parameters of the generic types and methods in which a member is used. It satisfies their constraints.
    private static readonly Type[] Arguments = [.. Enumerable.Repeat(typeof(IBusAndHandler), 4)];

    private static readonly Assembly Package = typeof(MassTransitReceiver).Assembly;

    [Fact]
    public void The_package_refers_to_MassTransits_documented_types_only()
    {
        using var file = new PEReader(File.OpenRead(Package.Location));
        var metadata = file.GetMetadataReader();

        var types = metadata.TypeReferences.Select(metadata.GetTypeReference)
            .Select(type => (Namespace: metadata.GetString(type.Namespace), Name: metadata.GetString(type.Name)))
            .Where(static type => type.Namespace.StartsWith("MassTransit", StringComparison.Ordinal))
            .ToArray();

        Assert.Contains(types, static type => type.Name == "IBusControl");
        Assert.Empty(types.Where(static type => !DocumentedNamespaces.Contains(type.Namespace)).Select(static type => $"{type.Namespace}.{type.Name}").Except(OutsideTheDocumentedNamespaces));
    }

    [Fact]
    public void Every_type_and_member_that_the_package_was_compiled_with_is_in_the_newest_MassTransit()
    {
        using var file = new PEReader(File.OpenRead(Package.Location));
        var metadata = file.GetMetadataReader();

        // A type throws here when it does not implement a member that its base or interface has now.
        var types = Package.GetTypes();
        var missing = metadata.MemberReferences.Select(handle => MetadataTokens.GetToken(handle)).Select(FindFault).OfType<string>();

        Assert.NotEmpty(types);
        Assert.Empty(missing);
        Assert.True(Version.Parse(FileVersionOf("MassTransit.RabbitMqTransport")) >= new Version(8, 5));
    }

    private static string? FindFault(int token)
    {
        try
        {
            Package.ManifestModule.ResolveMember(token, Arguments, Arguments);
            return null;
        }
        catch (MissingMemberException exception)
        {
            return exception.Message;
        }
        catch (TypeLoadException exception)
        {
            return exception.Message;
        }
    }

    private static string FileVersionOf(string assembly) => Assembly.Load(assembly).GetCustomAttribute<AssemblyFileVersionAttribute>()!.Version;

    private interface IBusAndHandler : IBus, IMessageHandler, IHostedService;
}
