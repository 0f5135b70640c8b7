using System.Security.Cryptography;
using System.Text;

namespace MudServer.Game;

/// <summary>The passwords of names, hashed, in the memory of this game only. Only the game loop uses it.</summary>
internal sealed class Passwords(GameOutput output, GameInput input)
{
    public const int MinCharacters = 8;
    public const int MaxCharacters = 64;

    private const int MaxNames = 10_000;

    // A tenth of a second of one core or more: a guess costs as much.
    private const int Iterations = 600_000;
    private const int SaltBytes = 16;
    private const int HashBytes = 32;

    // So many take a second or two. Another player is asked to try again, in place of a wait for the guesses of strangers.
    private const int MaxWaiting = 10;

    private readonly Dictionary<string, HashedPassword> _byName = new(StringComparer.OrdinalIgnoreCase);

    // One at a time, so that guesses take no more than one core.
    private readonly SemaphoreSlim _hashing = new(1, 1);
    private int _waiting;

    /// <summary>True when it takes no more names.</summary>
    public bool IsFull => _byName.Count >= MaxNames;

    /// <summary>True for a name that has a password.</summary>
    public bool Has(string name) => _byName.ContainsKey(name);

    /// <summary>Checks a name's password, or gives the name its first one, beside the game loop. The game then gets <see cref="InputKind.PasswordChecked"/>, before the next line of the session.</summary>
    public void Begin(Session session, string name, string password)
    {
        var known = _byName.GetValueOrDefault(name);
        output.RunAfterwards(async () =>
        {
            try
            {
                if (Interlocked.Increment(ref _waiting) > MaxWaiting)
                    return ["Many passwords are being checked. Try again in a moment."];
                if (await TryHashAsync(password, known?.Salt ?? RandomNumberGenerator.GetBytes(SaltBytes)) is { } given)
                {
                    session.Checked = new CheckedPassword(name, known, given);
                    input.TellChecked(session);
                }

                return [];
            }
            finally
            {
                Interlocked.Decrement(ref _waiting);
            }
        });
    }

    /// <summary>Ends a check.</summary>
    /// <returns>True when the session has proved that the name is its own.</returns>
    public bool End(CheckedPassword answer) => answer.Known is { } known
        ? CryptographicOperations.FixedTimeEquals(answer.Given.Hash, known.Hash)
        : !IsFull && _byName.TryAdd(answer.Name, answer.Given);

    /// <returns>Null when the game ends: it has no time left for all that wait.</returns>
    private async Task<HashedPassword?> TryHashAsync(string password, byte[] salt)
    {
        await _hashing.WaitAsync();
        try
        {
            return input.IsCompleted ? null : new HashedPassword(salt, Rfc2898DeriveBytes.Pbkdf2(Encoding.UTF8.GetBytes(password), salt, Iterations, HashAlgorithmName.SHA256, HashBytes));
        }
        finally
        {
            _hashing.Release();
        }
    }
}

/// <summary>A password as it is kept.</summary>
internal sealed record HashedPassword(byte[] Salt, byte[] Hash);

/// <summary>A password that was typed, hashed.</summary>
/// <param name="Name">The name that it is for.</param>
/// <param name="Known">The password of the name; null when it had none.</param>
/// <param name="Given">What was typed.</param>
internal sealed record CheckedPassword(string Name, HashedPassword? Known, HashedPassword Given);
